// One value handed from a callback to the thread that waits for it.
#pragma once
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"

namespace embps {

// Waits for the one value that an asynchronous call brings.
template <class T>
class Waiter {
 public:
  void Set(T value) {
    MutexLock lock(&mu_);
    value_.emplace(std::move(value));
    ready_.NotifyAll();
  }
  T Wait() {
    MutexLock lock(&mu_);
    while (!value_.has_value()) ready_.Wait(&mu_);
    return *std::move(value_);
  }

 private:
  Mutex mu_;
  CondVar ready_;
  std::optional<T> value_ ABSL_GUARDED_BY(mu_);
};

}  // namespace embps
