#include "server/admission/byte_budget.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace embps {

ByteBudget::ByteBudget(int64_t limit_bytes, int64_t max_waiting, PostFunction post)
    : limit_bytes_(limit_bytes), max_waiting_(max_waiting), post_(std::move(post)) {}

ByteBudget::~ByteBudget() {
  MutexLock lock(&mu_);
  EMBPS_CHECK(used_bytes_ == 0 && waiting_.empty());
}

ByteBudget::Grant ByteBudget::MakeGrant(int64_t bytes) {
  return Grant(static_cast<void*>(this), [this, bytes](void*) { Release(bytes); });
}

void ByteBudget::Take(int64_t bytes) {
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
}

ByteBudget::Grant ByteBudget::TryAcquire(int64_t bytes) {
  {
    MutexLock lock(&mu_);
    if (!waiting_.empty() || bytes > limit_bytes_ - used_bytes_) {
      ++refused_;
      return nullptr;
    }
    Take(bytes);
  }
  return MakeGrant(bytes);
}

uint64_t ByteBudget::AcquireOrWait(int64_t bytes, Ready ready) {
  bool fits_now = false;
  {
    MutexLock lock(&mu_);
    fits_now = waiting_.empty() && bytes <= limit_bytes_ - used_bytes_;
    if (!fits_now && bytes <= limit_bytes_ && static_cast<int64_t>(waiting_.size()) < max_waiting_) {
      waiting_.push_back({++last_id_, bytes, std::move(ready)});
      return last_id_;
    }
    fits_now ? Take(bytes) : static_cast<void>(++refused_);
  }
  std::move(ready)(fits_now ? MakeGrant(bytes) : nullptr);
  return 0;
}

bool ByteBudget::Leave(uint64_t waiter) {
  Ready dropped;  // destroyed after the lock is gone: it may hold a grant
  std::deque<Waiter> woken;
  {
    MutexLock lock(&mu_);
    const auto it = std::ranges::find(waiting_, waiter, &Waiter::id);
    if (it == waiting_.end()) return false;
    dropped = std::move(it->ready);
    waiting_.erase(it);
    WakeFitting(woken);  // who stood behind a large one may fit
  }
  PostWoken(std::move(woken));
  return true;
}

void ByteBudget::WakeFitting(std::deque<Waiter>& woken) {
  while (!waiting_.empty() && waiting_.front().bytes <= limit_bytes_ - used_bytes_) {
    Take(waiting_.front().bytes);
    woken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void ByteBudget::PostWoken(std::deque<Waiter> woken) {
  for (Waiter& waiter : woken) {
    post_([ready = std::move(waiter.ready), grant = MakeGrant(waiter.bytes)]() mutable {
      std::move(ready)(std::move(grant));
    });
  }
}

void ByteBudget::Release(int64_t bytes) {
  std::deque<Waiter> woken;
  {
    MutexLock lock(&mu_);
    used_bytes_ -= bytes;
    WakeFitting(woken);
  }
  PostWoken(std::move(woken));
}

int64_t ByteBudget::used_bytes() const {
  MutexLock lock(&mu_);
  return used_bytes_;
}

int64_t ByteBudget::peak_bytes() const {
  MutexLock lock(&mu_);
  return peak_bytes_;
}

uint64_t ByteBudget::refused_count() const {
  MutexLock lock(&mu_);
  return refused_;
}

}  // namespace embps
