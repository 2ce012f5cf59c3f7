// Which calls are alive, and whether new ones are let in.
#pragma once
#include <chrono>
#include <cstdint>

#include "proto/base/mutex.h"

namespace embps {

// Thread-safe. Counts calls from their handler to OnDone; health checks and watches are not counted.
class CallTracker {
 public:
  // False once draining, unless the method is `served_while_draining`: the caller answers UNAVAILABLE DRAINING. A call
  // that was let in must Leave.
  bool Enter(bool served_while_draining);
  void Leave();

  // Refuses new calls from now on.
  void StartDraining();
  bool draining() const;
  int64_t in_flight() const;
  // False if calls were still in flight at `deadline`.
  bool WaitIdle(std::chrono::steady_clock::time_point deadline);

 private:
  mutable Mutex mu_;
  CondVar idle_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  int64_t in_flight_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace embps
