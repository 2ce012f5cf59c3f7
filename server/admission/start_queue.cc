#include "server/admission/start_queue.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace embps {

StartQueue::StartQueue(int64_t max_running, int64_t max_waiting, const Clock& clock, PostFunction post)
    : max_running_(max_running), max_waiting_(max_waiting), clock_(clock), post_(std::move(post)) {}

StartQueue::~StartQueue() {
  MutexLock lock(&mu_);
  EMBPS_CHECK(running_ == 0 && waiting_.empty());
}

StartQueue::Slot StartQueue::MakeSlot() {
  return Slot(static_cast<void*>(this), [this](void*) { Release(); });
}

StartQueue::Entered StartQueue::Enter(Clock::TimePoint deadline, Start start) {
  const bool expired = deadline <= clock_.Now();
  if (!expired) {
    MutexLock lock(&mu_);
    if (running_ == max_running_) {
      if (static_cast<int64_t>(waiting_.size()) >= max_waiting_) return {.accepted = false};
      waiting_.push_back({++last_id_, deadline, std::move(start)});
      return {.accepted = true, .waiter = last_id_};
    }
    ++running_;
  }
  std::move(start)(expired ? nullptr : MakeSlot());
  return {.accepted = true};
}

bool StartQueue::Leave(uint64_t waiter) {
  Start dropped;  // destroyed after the lock is gone: it may hold a slot or a grant
  MutexLock lock(&mu_);
  const auto it = std::ranges::find(waiting_, waiter, &Waiter::id);
  if (it == waiting_.end()) return false;
  dropped = std::move(it->start);
  waiting_.erase(it);
  return true;
}

// The next call in time inherits the place; those whose deadline passed are told so and take none.
void StartQueue::Release() {
  std::deque<Waiter> leaving;
  bool inherited = false;
  const Clock::TimePoint now = clock_.Now();
  {
    MutexLock lock(&mu_);
    while (!waiting_.empty() && !inherited) {
      inherited = waiting_.front().deadline > now;
      leaving.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    if (!inherited && --running_ == 0) idle_.NotifyAll();
  }
  for (Waiter& waiter : leaving) {
    Slot slot = inherited && &waiter == &leaving.back() ? MakeSlot() : nullptr;
    post_([start = std::move(waiter.start), slot = std::move(slot)]() mutable { std::move(start)(std::move(slot)); });
  }
}

bool StartQueue::WaitIdle(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(&mu_);
  while (running_ > 0) {
    if (!idle_.WaitUntil(&mu_, deadline)) return running_ == 0;
  }
  return true;
}

int64_t StartQueue::running_count() const {
  MutexLock lock(&mu_);
  return running_;
}

int64_t StartQueue::waiting_count() const {
  MutexLock lock(&mu_);
  return static_cast<int64_t>(waiting_.size());
}

}  // namespace embps
