#include "server/stats/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace embps {

// Values below 2^kSubBits have a bucket each; above, the bits behind the leading one choose among 2^kSubBits buckets.
int LatencyHistogram::BucketOf(uint64_t nanos) {
  if (nanos < (uint64_t{1} << kSubBits)) return static_cast<int>(nanos);
  const int exponent = std::bit_width(nanos) - 1;  // >= kSubBits
  const int shift = exponent - kSubBits;
  const auto sub = static_cast<int>(nanos >> shift) - (1 << kSubBits);
  return std::min(((shift + 1) << kSubBits) + sub, kBuckets - 1);
}

uint64_t LatencyHistogram::UpperEdgeNanos(int bucket) {
  const int group = bucket >> kSubBits;
  const auto sub = static_cast<uint64_t>(bucket & ((1 << kSubBits) - 1));
  if (group == 0) return sub + 1;
  return ((uint64_t{1} << kSubBits) + sub + 1) << (group - 1);
}

void LatencyHistogram::Record(std::chrono::nanoseconds latency) {
  const auto nanos = static_cast<uint64_t>(std::max<int64_t>(latency.count(), 0));
  buckets_[static_cast<size_t>(BucketOf(nanos))].fetch_add(1, std::memory_order_relaxed);
}

uint64_t LatencyHistogram::count() const {
  uint64_t sum = 0;
  for (const auto& bucket : buckets_) sum += bucket.load(std::memory_order_relaxed);
  return sum;
}

double LatencyHistogram::QuantileMicros(double q) const {
  std::array<uint64_t, kBuckets> counts;
  uint64_t total = 0;
  for (int i = 0; i < kBuckets; ++i) {
    counts[static_cast<size_t>(i)] = buckets_[static_cast<size_t>(i)].load(std::memory_order_relaxed);
    total += counts[static_cast<size_t>(i)];
  }
  if (total == 0) return 0;
  const auto wanted = std::clamp<uint64_t>(static_cast<uint64_t>(std::ceil(q * static_cast<double>(total))), 1, total);
  uint64_t seen = 0;
  int bucket = 0;
  while ((seen += counts[static_cast<size_t>(bucket)]) < wanted) ++bucket;
  return static_cast<double>(UpperEdgeNanos(bucket)) / 1000.0;
}

}  // namespace embps
