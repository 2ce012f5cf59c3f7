// What is under way, so that its owner can wait for the last of it.
#pragma once
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"

namespace embps {

// Counts calls, so that a transport can wait for its last one.
class CallCount {
 public:
  void Enter() {
    MutexLock lock(&mu_);
    ++count_;
  }
  void Leave() {
    MutexLock lock(&mu_);
    if (--count_ == 0) none_.NotifyAll();
  }
  void WaitForNone() {
    MutexLock lock(&mu_);
    while (count_ > 0) none_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar none_;
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace embps
