// The client's routing of one feature over nodes: plain arrays in, plain arrays out. Letters: B bags, L ids.
//
//   pooled, rows on several nodes    RowSplitter: every node gets all B slots, empty ones too, and its own ids
//   pooled push, rows on several     RowSplitter, then NonEmptySlots: only bags with ids here carry a gradient row
//   sequence                         DistinctIds, then RowSplitter over the distinct ids as one bag; rows come back
//   into
//                                    the distinct order by `positions` and are expanded by `inverse`
//   columns on several nodes         the ids go to each of TableLayout::nodes() as they are
//   all else                         the feature goes whole to the one node
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/plan/table_layout.h"

namespace embps::plan {

// Ids of one feature, int32_t or int64_t as its table's spec says.
template <typename Id>
struct JaggedView {
  absl::Span<const int64_t> lengths;  // [B], >= 0, sum = L
  absl::Span<const Id> ids;           // [L]
  absl::Span<const float> weights;    // [L] or empty
};

// What one node gets of a feature. Ids stay global; their order inside each bag is kept.
template <typename Id>
struct NodePart {
  std::vector<int64_t> lengths;    // [B]
  std::vector<Id> ids;             // [L_n]
  std::vector<float> weights;      // [L_n] if the feature is weighted
  std::vector<int64_t> positions;  // [L_n] index of each id in the feature, ascending; only if asked for
};

// Splits features of one row-wise table over nodes. Holds scratch, so one per thread.
class RowSplitter {
 public:
  // Node i takes rows [starts[i], starts[i + 1]): TableLayout::node_row_starts(). Ascending, first 0, at least 2
  // entries.
  explicit RowSplitter(absl::Span<const int64_t> node_row_starts);
  explicit RowSplitter(const TableLayout& layout) : RowSplitter(layout.node_row_starts()) {}

  int node_count() const { return static_cast<int>(starts_.size()) - 1; }

  // parts[i] is for node i; its vectors are overwritten and keep their capacity. An id outside [0, R) is OUT_OF_RANGE
  // ID_OUT_OF_RANGE with the metadata first_bad_id, position, count and rows; then parts are unspecified. The caller
  // has checked the lengths and applied the out-of-range policy.
  absl::Status Split(const JaggedView<int32_t>& feature, bool want_positions, std::vector<NodePart<int32_t>>& parts);
  absl::Status Split(const JaggedView<int64_t>& feature, bool want_positions, std::vector<NodePart<int64_t>>& parts);

 private:
  template <typename Id>
  absl::Status SplitImpl(const JaggedView<Id>& feature, bool want_positions, std::vector<NodePart<Id>>& parts);
  template <typename Id>
  absl::Status FindNodes(absl::Span<const Id> ids);

  const std::vector<int64_t> starts_;  // [N + 1]
  std::vector<uint16_t> node_of_id_;   // [L]
  std::vector<int64_t> counts_;        // [N]
};

// unique[inverse[i]] == ids[i]; unique ids stand in the order of their first occurrence.
template <typename Id>
struct Distinct {
  std::vector<Id> unique;
  std::vector<int64_t> inverse;  // [L]
};
Distinct<int32_t> DistinctIds(absl::Span<const int32_t> ids);
Distinct<int64_t> DistinctIds(absl::Span<const int64_t> ids);

// Indices of the slots that hold ids, ascending: the ones whose gradient rows a push sends to this node. Leaving the
// others out keeps (feature, sample, position) order, so the update is the same to the bit.
std::vector<int64_t> NonEmptySlots(absl::Span<const int64_t> lengths);

}  // namespace embps::plan
