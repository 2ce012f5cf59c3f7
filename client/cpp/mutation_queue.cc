#include "client/cpp/mutation_queue.h"

#include <utility>

#include "proto/base/check.h"

namespace embps::client {

uint64_t MutationQueue::Open() {
  MutexLock lock(&mu_);
  open_.insert(++last_sequence_);
  return last_sequence_;
}

void MutationQueue::Settle(uint64_t sequence) {
  MutexLock lock(&mu_);
  open_.erase(sequence);
}

uint64_t MutationQueue::FirstOpen(uint64_t otherwise) const {
  MutexLock lock(&mu_);
  return open_.empty() ? otherwise : *open_.begin();
}

void MutationQueue::Enter(Scheduler* scheduler, TimePoint deadline, std::function<void(bool)> turn) {
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    if (in_flight_ < max_in_flight_ && waiters_.empty()) {
      ++in_flight_;
    } else {
      id = ++last_waiter_;
      waiters_.push_back({id, std::move(turn)});
    }
  }
  if (id == 0) return turn(true);
  scheduler->RunAt(deadline, [queue = weak_from_this(), id] {
    if (const auto alive = queue.lock()) alive->Expire(id);
  });
}

void MutationQueue::Leave() {
  std::function<void(bool)> next;
  {
    MutexLock lock(&mu_);
    EMBPS_CHECK(in_flight_ > 0);
    if (waiters_.empty()) {
      --in_flight_;
    } else {
      next = std::move(waiters_.front().turn);
      waiters_.pop_front();
    }
  }
  if (next) next(true);
}

void MutationQueue::Expire(uint64_t id) {
  std::function<void(bool)> expired;
  {
    MutexLock lock(&mu_);
    for (auto waiter = waiters_.begin(); waiter != waiters_.end(); ++waiter) {
      if (waiter->id != id) continue;
      expired = std::move(waiter->turn);
      waiters_.erase(waiter);
      break;
    }
  }
  if (expired) expired(false);
}

}  // namespace embps::client
