// Monotonic time as a dependency, so that tests decide what time it is.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace embps {

class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;
  // Never goes back. Safe from any thread.
  virtual TimePoint Now() const = 0;

  // The machine's clock; lives as long as the process.
  static const Clock& Real();
};

// Stands still until told otherwise. Starts well after the epoch, so that subtracting a timeout stays positive.
class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(ticks_.load(std::memory_order_acquire))); }
  void Advance(Duration step) { ticks_.fetch_add(step.count(), std::memory_order_acq_rel); }

 private:
  std::atomic<Duration::rep> ticks_{Duration(std::chrono::hours(24)).count()};
};

}  // namespace embps
