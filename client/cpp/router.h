// Cuts a batch into what each node gets. Ids, lengths and weights only; gradients follow the `rows` of each part.
//
//                 rows over nodes                        columns over nodes       else
//   pooled        bucketized, all B_f slots to each;     the same to each         whole to the one node
//                 pushes: only the slots with ids
//   sequence      lookups: distinct ids, then as a bag of their own; pushes: every occurrence
//
// The forms of lookup and push are the same if a lookup_token is to name the batch: no distinct ids, no slots left out.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/batch_shape.h"
#include "embps/options.h"
#include "proto/wire/batch_encoder.h"

namespace embps::client {

// One output on one node.
struct RoutedFeature {
  size_t output = 0;                    // in BatchShape::outputs
  int64_t bag_count = 0;                // batch_size on the wire
  absl::Span<const int64_t> lengths;    // [bag_count]
  wire::IdView ids;                     // [sum of lengths]
  const float* weights = nullptr;       // [sum of lengths] or null
  absl::Span<const int64_t> bag_sizes;  // [bag_count]: a MEAN whose bags are cut over nodes; else empty
  // Rows that the node answers with or takes gradients for: bag_count if pooled, ids.count if sequence. Where row r
  // belongs: pooled: slot rows[r] of the feature; sequence: row rows[r] of RoutedOutput. Empty: row r itself.
  int64_t row_count = 0;
  absl::Span<const int64_t> rows;
};

struct RoutedOutput {
  // Rows before they are expanded: B_f if pooled, distinct (or occurring) ids if sequence.
  int64_t row_count = 0;
  // Sequence: the row of each id of the feature, -1 = a zero row. Empty: id i is row i.
  absl::Span<const int64_t> row_of_id;
};

struct RouteOptions {
  OutOfRangePolicy policy = OutOfRangePolicy::kError;
  bool push = false;
  bool by_token = false;
};

struct RoutedBatch {
  RoutedBatch() = default;
  RoutedBatch(RoutedBatch&&) = default;
  RoutedBatch& operator=(RoutedBatch&&) = default;

  std::vector<RoutedOutput> outputs;              // as BatchShape::outputs
  std::vector<std::vector<RoutedFeature>> nodes;  // [N], in the order of BatchShape::outputs
  // kDrop: what was dropped here. Ids of features that go whole to one node are left to it.
  uint64_t dropped_ids = 0;
  uint64_t pruned_ids = 0;

  // What the spans stand in.
  std::deque<std::vector<int64_t>> integers;
  std::deque<std::vector<float>> floats;
};

// ID_OUT_OF_RANGE with the feature, the table and the position in the caller's values, as the server would say it. The
// result borrows from `kjt`.
absl::StatusOr<RoutedBatch> RouteBatch(const BatchShape& shape, const KjtView& kjt, const RouteOptions& options);

}  // namespace embps::client
