// bucketize on the CPU: the ids of one feature, split by row block, order inside a bag kept.
//
// Parallel over tasks: one pass over the ids of a task, each appended to its bucket. Bytes moved: 8 bytes per id read,
// 8 per id and array written. The integer division by the block is a multiplication where ids fit 32 bits.
#include <algorithm>
#include <limits>

#include "kernels/cpu/routing.h"
#include "proto/base/check.h"

namespace embps::kernels::cpu {
namespace {

// Exact quotients of 32-bit values by a fixed 32-bit divisor: with magic = floor(2^64 / d) + 1,
// floor(n * magic / 2^64) = floor(n / d) for all n, d < 2^32 (Lemire, Kaser, Kurz, "Faster remainder by direct
// computation", 2019). d = 1 would need 2^64 and is left to the caller.
struct MultiplyDivider {
  explicit MultiplyDivider(int64_t divisor) : magic(~uint64_t{0} / static_cast<uint64_t>(divisor) + 1) {}
  int64_t operator()(int64_t value) const {
    return static_cast<int64_t>(static_cast<unsigned __int128>(magic) * static_cast<uint64_t>(value) >> 64);
  }
  uint64_t magic;
};

struct HardwareDivider {
  int64_t operator()(int64_t value) const { return value / divisor; }
  int64_t divisor;
};

struct SingleBucket {
  int64_t operator()(int64_t) const { return 0; }
};

constexpr int64_t kCursorBuckets = 256;  // buckets that one pass can serve

// Sends the ids of buckets [first, first + count) on their way; others are skipped.
template <class Divide>
void BucketizePass(const BucketizeTask& task, const Divide divide, int64_t first, int64_t count) {
  int64_t cursor[kCursorBuckets] = {};
  int64_t at_bag_begin[kCursorBuckets] = {};
  const Bucket* const buckets = task.buckets + first;
  for (int64_t b = 0; b < task.bag_count; ++b) {
    for (int64_t i = task.offsets[b]; i < task.offsets[b + 1]; ++i) {
      if (task.ids[i] < 0) continue;
      const int64_t row = task.ids[i] - task.row_begin;
      const int64_t bucket = divide(row);
      const int64_t local = bucket - first;
      if (local < 0 || local >= count) continue;
      const Bucket& to = buckets[local];
      const int64_t at = cursor[local]++;
      to.ids[at] = row - bucket * task.block_rows;
      if (to.weights != nullptr) to.weights[at] = task.weights[i];
      if (to.positions != nullptr) to.positions[at] = i;
    }
    for (int64_t w = 0; w < count; ++w) {
      buckets[w].lengths[b] = cursor[w] - at_bag_begin[w];
      at_bag_begin[w] = cursor[w];
    }
  }
  for (int64_t w = 0; w < count; ++w) EMBPS_CHECK(cursor[w] == buckets[w].count);
}

template <class Divide>
void BucketizeTaskBy(const BucketizeTask& task, Divide divide) {
  for (int64_t first = 0; first < task.bucket_count; first += kCursorBuckets) {
    BucketizePass(task, divide, first, std::min<int64_t>(task.bucket_count - first, kCursorBuckets));
  }
}

void BucketizeOne(const BucketizeTask& task) {
  constexpr int64_t kMax32 = std::numeric_limits<uint32_t>::max();
  if (task.bucket_count == 1) {
    BucketizeTaskBy(task, SingleBucket{});
  } else if (task.block_rows > 1 && task.block_rows <= kMax32 / task.bucket_count) {
    BucketizeTaskBy(task, MultiplyDivider(task.block_rows));
  } else {
    BucketizeTaskBy(task, HardwareDivider{task.block_rows});
  }
}

}  // namespace

void Bucketize(absl::Span<const BucketizeTask> tasks, ParallelFor& parallel) {
  constexpr int64_t kMinPieceUnits = 1 << 12;
  int64_t units = 0;
  for (const BucketizeTask& task : tasks) {
    if (task.bag_count > 0) units += task.offsets[task.bag_count] - task.offsets[0] + task.bag_count;
  }
  const auto task_count = static_cast<int64_t>(tasks.size());
  if (units < kMinPieceUnits) {
    for (const BucketizeTask& task : tasks) BucketizeOne(task);
  } else {
    parallel.Run(task_count, [&](int64_t t) { BucketizeOne(tasks[t]); });
  }
}

}  // namespace embps::kernels::cpu
