// A decoded batch, grouped by table so that kernels can run on it as it is. For each distinct table in order of its
// first appearance: the features that use it, in the order listed, one after another.
//
// A *slot* is what takes one row of output or gradient: a bag of a pooled feature, an id position of a sequence
// feature. Letters: S slots of a table, N accepted ids of a table, D row width, B_f bags of feature f.
//
// Two forms differ only where DROP met a sequence feature. In the lookup form the id's place holds -1 (a zero row). In
// the push form the id is gone and its slot is empty, as GradSort wants it. LookupHeader decodes to the first,
// PushGradHeader to the second.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "embps/v1/embedding.pb.h"

namespace embps::wire {

// What a decoder must know of a table.
struct TableInfo {
  std::string name;       // for errors, such as "default/users"
  int64_t row_count = 0;  // R
  int32_t dim = 0;        // D
  v1::IdType id_type = v1::ID_TYPE_UNSPECIFIED;
  uint64_t placement_version = 0;
  // Rows that this node's shards cover; [0, R) unless the table is row-split over nodes. Ids elsewhere are misrouted.
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

// Null = no such table. What it points to must stay valid until Begin returns.
using TableResolver = std::function<const TableInfo*(uint64_t table_uid)>;

// Bounds of one call, from the server's advertised limits.
struct DecodeLimits {
  int64_t max_features = 4096;
  int64_t max_bags = int64_t{1} << 24;  // sum of B_f, at most 2^31
  int64_t max_ids = int64_t{1} << 28;   // at most 2^40
};

// One (feature, table) pair of the request, in request order.
struct FeatureSlice {
  int32_t table = 0;  // index into DecodedBatch::tables
  v1::Pooling pooling = v1::POOLING_UNSPECIFIED;
  bool split_bags = false;
  int64_t bag_begin = 0;  // its first entry in DecodedBatch::lengths
  int64_t bag_count = 0;  // B_f
  // Positions in its table's arrays. slot_count = bag_count if pooled, else the sum of its lengths; it is also the row
  // count of its output and of its gradient block.
  int64_t slot_begin = 0;
  int64_t slot_count = 0;
  int64_t id_begin = 0;
  int64_t id_count = 0;

  bool pooled() const { return pooling != v1::POOLING_NONE; }
};

// One distinct table of the request. Pointers are 64-byte aligned.
struct TableSlice {
  uint64_t table_uid = 0;
  std::string name;
  int32_t dim = 0;
  int32_t id_bytes = 8;  // on the wire
  int64_t row_count = 0;
  int64_t row_begin = 0;  // this node's rows
  int64_t row_end = 0;
  std::vector<int32_t> features;  // indexes into DecodedBatch::features, ascending
  bool has_mean = false;

  int64_t slot_count = 0;             // S
  int64_t id_count = 0;               // N
  const int64_t* offsets = nullptr;   // [S + 1], offsets[0] = 0, offsets[S] = N
  const int64_t* ids = nullptr;       // [N] global ids
  const float* weights = nullptr;     // [N], or null if the request is not weighted
  const int64_t* divisors = nullptr;  // [S], or null without MEAN: accepted length of the whole bag; 1 for other slots
  float* grads = nullptr;             // [S, D], pushes only; rows of slots left out by DROP_ROWS are zero

  int64_t dropped_ids = 0, pruned_ids = 0, dropped_rows = 0;  // this table's share of the batch's counts
};

struct DecodedBatch {
  std::vector<FeatureSlice> features;  // request order
  std::vector<TableSlice> tables;
  bool weighted = false;
  v1::OutOfRangePolicy out_of_range_policy = v1::OUT_OF_RANGE_POLICY_ERROR;
  int64_t bag_count = 0;             // sum of B_f
  int64_t id_count = 0;              // ids of the request, as sent
  const int64_t* lengths = nullptr;  // [bag_count] feature-major, as sent, before DROP

  int64_t dropped_ids = 0;   // DROP: ids outside [0, R) other than -1
  int64_t pruned_ids = 0;    // DROP: ids equal to -1
  int64_t marked_ids = 0;    // of these, the ones that a lookup form still holds as -1 (sequence features)
  int64_t dropped_rows = 0;  // DROP_ROWS: gradient rows left out

  std::shared_ptr<void> memory;              // holds the arrays
  std::shared_ptr<const DecodedBatch> kept;  // a push by lookup_token whose id arrays are the kept lookup's own
};

// Bounds that cut feature f's slots into `parts` home parts: part q holds samples [q * B_f / parts, (q+1) * B_f /
// parts) and so the table-relative slots [bounds[q], bounds[q + 1]) and ids [offsets[bounds[q]], offsets[bounds[q +
// 1]]). parts >= 1; the result has parts + 1 entries. One pass over the lengths of a sequence feature, no pass
// otherwise.
std::vector<int64_t> HomePartSlots(const DecodedBatch& batch, const FeatureSlice& feature, int parts);

// Buckets of a row-wise table, as kernels::BucketizeTask cuts them: bucket of id = (id - row_begin) / block_rows.
struct BucketShape {
  int64_t row_begin = 0;
  int64_t block_rows = 1;
  int32_t bucket_count = 1;
};

// counts[q * bucket_count + k] = ids of home part q (of HomePartSlots) that fall into bucket k. -1 marks fall into
// none. counts has (slot_bounds.size() - 1) * bucket_count entries and is overwritten.
void CountBuckets(const TableSlice& table, absl::Span<const int64_t> slot_bounds, const BucketShape& shape,
                  absl::Span<int64_t> counts);

}  // namespace embps::wire
