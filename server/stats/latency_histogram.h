// How long calls take, in constant memory.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace embps {

// Eight buckets per power of two nanoseconds, up to 2^42 (73 minutes): a quantile is at most 1/8 too high. Record is
// one relaxed add; readers see a moment's mixture.
class LatencyHistogram {
 public:
  void Record(std::chrono::nanoseconds latency);
  uint64_t count() const;
  // Upper edge, in microseconds, of the bucket that holds the q-quantile, 0 <= q <= 1; 0 when empty.
  double QuantileMicros(double q) const;

 private:
  static constexpr int kSubBits = 3;
  static constexpr int kMaxBits = 42;
  static constexpr int kBuckets = (kMaxBits - kSubBits + 1) << kSubBits;
  static int BucketOf(uint64_t nanos);
  static uint64_t UpperEdgeNanos(int bucket);

  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
};

}  // namespace embps
