#include "proto/plan/split.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps::plan {
namespace {

// Up to so many nodes, counting the starts at or below an id beats a binary search: no branch depends on the data.
constexpr size_t kCountedNodes = 16;

template <typename Id>
absl::Status OutOfRange(absl::Span<const Id> ids, int64_t row_count) {
  const auto outside = [row_count](Id id) { return static_cast<uint64_t>(int64_t{id}) >= uint64_t(row_count); };
  const auto first = std::ranges::find_if(ids, outside);
  const int64_t count = std::ranges::count_if(ids, outside);
  const std::string id = absl::StrCat(*first);
  const std::string position = absl::StrCat(first - ids.begin());
  return MakeError(
      Reason::kIdOutOfRange,
      absl::StrCat("id ", id, " at position ", position, " is outside [0, ", row_count, "), ", count, " such ids"),
      {{"first_bad_id", id},
       {"position", position},
       {"count", absl::StrCat(count)},
       {"rows", absl::StrCat(row_count)}});
}

// Ids to their index in order of first occurrence: open addressing, linear probing, at most half full.
template <typename Id>
Distinct<Id> DistinctImpl(absl::Span<const Id> ids) {
  Distinct<Id> distinct;
  distinct.inverse.resize(ids.size());
  const size_t slots = std::bit_ceil(std::max<size_t>(16, ids.size() * 2));
  const int shift = 64 - std::countr_zero(slots);
  constexpr int64_t kFree = -1;
  std::vector<int64_t> index_of_slot(slots, kFree);
  for (size_t i = 0; i < ids.size(); ++i) {
    // Fibonacci hashing: the high bits of the product depend on all bits of the id.
    size_t slot = static_cast<uint64_t>(int64_t{ids[i]}) * 0x9e3779b97f4a7c15u >> shift;
    while (index_of_slot[slot] != kFree && distinct.unique[index_of_slot[slot]] != ids[i]) {
      slot = (slot + 1) & (slots - 1);
    }
    if (index_of_slot[slot] == kFree) {
      index_of_slot[slot] = static_cast<int64_t>(distinct.unique.size());
      distinct.unique.push_back(ids[i]);
    }
    distinct.inverse[i] = index_of_slot[slot];
  }
  return distinct;
}

}  // namespace

RowSplitter::RowSplitter(absl::Span<const int64_t> node_row_starts)
    : starts_(node_row_starts.begin(), node_row_starts.end()) {
  EMBPS_CHECK(starts_.size() >= 2 && starts_.size() <= size_t{UINT16_MAX} && starts_.front() == 0);
  EMBPS_CHECK(std::ranges::is_sorted(starts_));
}

template <typename Id>
absl::Status RowSplitter::FindNodes(absl::Span<const Id> ids) {
  const auto row_count = static_cast<uint64_t>(starts_.back());
  // Nodes after the first, each by the row it starts with.
  const auto starts = absl::MakeConstSpan(starts_).subspan(1, starts_.size() - 2);
  node_of_id_.resize(ids.size());
  bool all_inside = true;
  for (const Id id : ids) all_inside &= static_cast<uint64_t>(int64_t{id}) < row_count;
  if (!all_inside) return OutOfRange(ids, starts_.back());
  if (starts.size() < kCountedNodes) {
    for (size_t i = 0; i < ids.size(); ++i) {
      uint16_t node = 0;
      for (const int64_t start : starts) node += int64_t{ids[i]} >= start;
      node_of_id_[i] = node;
    }
  } else {
    for (size_t i = 0; i < ids.size(); ++i) {
      node_of_id_[i] = static_cast<uint16_t>(std::ranges::upper_bound(starts, int64_t{ids[i]}) - starts.begin());
    }
  }
  return absl::OkStatus();
}

template <typename Id>
absl::Status RowSplitter::SplitImpl(const JaggedView<Id>& feature, bool want_positions,
                                    std::vector<NodePart<Id>>& parts) {
  EMBPS_CHECK(feature.weights.empty() || feature.weights.size() == feature.ids.size());
  EMBPS_RETURN_IF_ERROR(FindNodes(feature.ids));
  const bool weighted = !feature.weights.empty();
  counts_.assign(node_count(), 0);
  for (const uint16_t node : node_of_id_) ++counts_[node];
  parts.resize(node_count());
  for (int node = 0; node < node_count(); ++node) {
    parts[node].lengths.assign(feature.lengths.size(), 0);
    parts[node].ids.resize(counts_[node]);
    parts[node].weights.resize(weighted ? counts_[node] : 0);
    parts[node].positions.resize(want_positions ? counts_[node] : 0);
    counts_[node] = 0;
  }
  size_t at = 0;
  for (size_t bag = 0; bag < feature.lengths.size(); ++bag) {
    const size_t end = at + static_cast<size_t>(feature.lengths[bag]);
    EMBPS_CHECK(end <= feature.ids.size());
    for (; at < end; ++at) {
      NodePart<Id>& part = parts[node_of_id_[at]];
      const int64_t to = counts_[node_of_id_[at]]++;
      ++part.lengths[bag];
      part.ids[to] = feature.ids[at];
      if (weighted) part.weights[to] = feature.weights[at];
      if (want_positions) part.positions[to] = static_cast<int64_t>(at);
    }
  }
  EMBPS_CHECK(at == feature.ids.size());
  return absl::OkStatus();
}

absl::Status RowSplitter::Split(const JaggedView<int32_t>& feature, bool want_positions,
                                std::vector<NodePart<int32_t>>& parts) {
  return SplitImpl(feature, want_positions, parts);
}

absl::Status RowSplitter::Split(const JaggedView<int64_t>& feature, bool want_positions,
                                std::vector<NodePart<int64_t>>& parts) {
  return SplitImpl(feature, want_positions, parts);
}

Distinct<int32_t> DistinctIds(absl::Span<const int32_t> ids) { return DistinctImpl(ids); }
Distinct<int64_t> DistinctIds(absl::Span<const int64_t> ids) { return DistinctImpl(ids); }

std::vector<int64_t> NonEmptySlots(absl::Span<const int64_t> lengths) {
  std::vector<int64_t> slots;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > 0) slots.push_back(static_cast<int64_t>(i));
  }
  return slots;
}

}  // namespace embps::plan
