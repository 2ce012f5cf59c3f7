#include "server/rpc/stall_watch.h"

namespace embps {

void StallWatch::Add(Stallable* call) {
  MutexLock lock(&mu_);
  calls_.insert(call);
}

void StallWatch::Remove(Stallable* call) {
  MutexLock lock(&mu_);
  calls_.erase(call);
}

void StallWatch::Tick(Clock::TimePoint now) {
  MutexLock lock(&mu_);
  for (Stallable* call : calls_) call->CutIfStalled(now - timeout_);
}

}  // namespace embps
