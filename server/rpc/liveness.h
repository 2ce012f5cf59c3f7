// Forward progress: a server whose lanes finish no ticket although some wait is not alive.
#pragma once
#include <cstdint>

#include "server/env/clock.h"

namespace embps {

// Not thread-safe: one thread samples.
class LivenessProbe {
 public:
  LivenessProbe(Clock::Duration timeout, Clock::TimePoint now) : timeout_(timeout), progress_at_(now) {}

  // False if tickets wait and none finished since `timeout`. Both counts only grow.
  bool Alive(uint64_t submitted, uint64_t finished, Clock::TimePoint now) {
    if (finished != last_finished_ || submitted == finished) {
      last_finished_ = finished;
      progress_at_ = now;
    }
    return now - progress_at_ < timeout_;
  }

 private:
  const Clock::Duration timeout_;
  uint64_t last_finished_ = 0;
  Clock::TimePoint progress_at_;
};

}  // namespace embps
