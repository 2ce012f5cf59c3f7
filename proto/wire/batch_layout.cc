#include "proto/wire/batch_layout.h"

#include <algorithm>
#include <numeric>

#include "proto/base/check.h"
#include "proto/wire/checked_copy.h"

namespace embps::wire {
namespace {

// Ids of a chunk stay in the first cache while each bucket's bound is counted.
constexpr int64_t kChunkIds = 1024;
// From here on one division per id is cheaper than one comparison per id and bucket.
constexpr int32_t kManyBuckets = 32;

void CountByDivision(const int64_t* ids, int64_t count, const BucketShape& shape, int64_t* counts) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] < shape.row_begin) continue;
    ++counts[(ids[i] - shape.row_begin) / shape.block_rows];
  }
}

void CountByBounds(const int64_t* ids, int64_t count, const BucketShape& shape, int64_t* counts) {
  for (int64_t begin = 0; begin < count; begin += kChunkIds) {
    const auto n = static_cast<size_t>(std::min(kChunkIds, count - begin));
    int64_t at_least = CountAtLeast(ids + begin, n, shape.row_begin);
    for (int32_t k = 0; k < shape.bucket_count; ++k) {
      const bool last = k + 1 == shape.bucket_count;
      const int64_t beyond = last ? 0 : CountAtLeast(ids + begin, n, shape.row_begin + (k + 1) * shape.block_rows);
      counts[k] += at_least - beyond;
      at_least = beyond;
    }
  }
}

}  // namespace

std::vector<int64_t> HomePartSlots(const DecodedBatch& batch, const FeatureSlice& feature, int parts) {
  EMBPS_CHECK(parts >= 1);
  std::vector<int64_t> bounds(static_cast<size_t>(parts) + 1);
  const int64_t* lengths = batch.lengths + feature.bag_begin;
  int64_t bag = 0, slot = feature.slot_begin;
  for (int q = 0; q <= parts; ++q) {
    const int64_t end = q * feature.bag_count / parts;
    slot += feature.pooled() ? end - bag : std::accumulate(lengths + bag, lengths + end, int64_t{0});
    bag = end;
    bounds[static_cast<size_t>(q)] = slot;
  }
  return bounds;
}

void CountBuckets(const TableSlice& table, absl::Span<const int64_t> slot_bounds, const BucketShape& shape,
                  absl::Span<int64_t> counts) {
  const size_t parts = slot_bounds.size() - 1;
  EMBPS_CHECK(counts.size() == parts * static_cast<size_t>(shape.bucket_count) && shape.block_rows >= 1);
  std::fill(counts.begin(), counts.end(), 0);
  for (size_t q = 0; q < parts; ++q) {
    const int64_t begin = table.offsets[slot_bounds[q]];
    const int64_t count = table.offsets[slot_bounds[q + 1]] - begin;
    int64_t* out = counts.data() + q * static_cast<size_t>(shape.bucket_count);
    if (shape.bucket_count >= kManyBuckets) {
      CountByDivision(table.ids + begin, count, shape, out);
    } else {
      CountByBounds(table.ids + begin, count, shape, out);
    }
  }
}

}  // namespace embps::wire
