#include "server/rpc/call_tracker.h"

#include "proto/base/check.h"

namespace embps {

bool CallTracker::Enter(bool served_while_draining) {
  MutexLock lock(&mu_);
  if (draining_ && !served_while_draining) return false;
  ++in_flight_;
  return true;
}

void CallTracker::Leave() {
  MutexLock lock(&mu_);
  EMBPS_CHECK(in_flight_ > 0);
  if (--in_flight_ == 0) idle_.NotifyAll();
}

void CallTracker::StartDraining() {
  MutexLock lock(&mu_);
  draining_ = true;
}

bool CallTracker::draining() const {
  MutexLock lock(&mu_);
  return draining_;
}

int64_t CallTracker::in_flight() const {
  MutexLock lock(&mu_);
  return in_flight_;
}

bool CallTracker::WaitIdle(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(&mu_);
  while (in_flight_ > 0) {
    if (!idle_.WaitUntil(&mu_, deadline)) return in_flight_ == 0;
  }
  return true;
}

}  // namespace embps
