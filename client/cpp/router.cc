#include "client/cpp/router.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "proto/base/status_macros.h"
#include "proto/plan/split.h"
#include "proto/wire/jagged_check.h"

namespace embps::client {
namespace {

// The ids of one output after the out-of-range policy.
struct CleanFeature {
  absl::Span<const int64_t> lengths;
  wire::IdView ids;
  const float* weights = nullptr;
  // Sequence under kDrop: for each id of the caller whether it stays. Empty: all stay.
  std::vector<bool> stays;
};

class BatchRouter {
 public:
  BatchRouter(const BatchShape& shape, const KjtView& kjt, const RouteOptions& options)
      : shape_(shape), kjt_(kjt), options_(options) {}

  absl::StatusOr<RoutedBatch> Run() {
    batch_.outputs.resize(shape_.outputs.size());
    batch_.nodes.resize(static_cast<size_t>(shape_.catalog->cluster().node_count()));
    for (size_t i = 0; i < shape_.outputs.size(); ++i) {
      EMBPS_ASSIGN_OR_RETURN(CleanFeature clean, Clean(shape_.outputs[i]));
      if (shape_.outputs[i].pooled()) {
        EMBPS_RETURN_IF_ERROR(RoutePooled(i, clean));
      } else {
        EMBPS_RETURN_IF_ERROR(RouteSequence(i, clean));
      }
    }
    return std::move(batch_);
  }

 private:
  std::vector<int64_t>& NewIntegers(size_t count = 0) { return batch_.integers.emplace_back(count); }
  template <typename T>
  absl::Span<const int64_t> Keep(std::vector<T>&& values) {
    return absl::MakeConstSpan(batch_.integers.emplace_back(std::move(values)));
  }

  wire::IdView IdsOf(const BatchOutput& output) const {
    const bool narrow = !kjt_.values32.empty();
    const wire::IdView all{narrow ? static_cast<const void*>(kjt_.values32.data()) : kjt_.values.data(),
                           kjt_.id_count(), narrow ? 4 : 8};
    return all.subview(output.id_begin, output.id_count);
  }

  absl::Span<const int64_t> Widen(const wire::IdView& ids) {
    if (ids.id_bytes == 8) return {static_cast<const int64_t*>(ids.data), static_cast<size_t>(ids.count)};
    const auto* narrow = static_cast<const int32_t*>(ids.data);
    return Keep(std::vector<int64_t>(narrow, narrow + ids.count));
  }

  absl::StatusOr<CleanFeature> Clean(const BatchOutput& output) {
    CleanFeature clean;
    clean.lengths = kjt_.lengths.subspan(static_cast<size_t>(output.bag_begin), static_cast<size_t>(output.bag_count));
    clean.ids = IdsOf(output);
    if (kjt_.weighted) clean.weights = kjt_.weights.data() + output.id_begin;
    const int64_t rows = output.table->layout.row_count();
    if (options_.policy == OutOfRangePolicy::kError) {
      const wire::FeatureLabel label{output.feature, kjt_.keys[static_cast<size_t>(output.feature)],
                                     output.table->label};
      EMBPS_RETURN_IF_ERROR(wire::ValidateIds(label, clean.ids, output.id_begin, rows));
      return clean;
    }
    if (output.pooled() && output.table->layout.nodes().size() == 1) return clean;
    Drop(output, rows, &clean);
    return clean;
  }

  void Drop(const BatchOutput& output, int64_t rows, CleanFeature* clean) {
    std::vector<int64_t>& ids = NewIntegers(static_cast<size_t>(clean->ids.count));
    const wire::IdCounts counts = wire::MarkOutOfRange(clean->ids, rows, ids.data());
    batch_.dropped_ids += static_cast<uint64_t>(counts.dropped);
    batch_.pruned_ids += static_cast<uint64_t>(counts.pruned);
    std::vector<int64_t>& lengths = NewIntegers();
    lengths.assign(clean->lengths.begin(), clean->lengths.end());
    float* weights = nullptr;
    if (clean->weights != nullptr) {
      weights = batch_.floats.emplace_back(clean->weights, clean->weights + ids.size()).data();
    }
    if (!output.pooled() && counts.dropped + counts.pruned > 0) {
      clean->stays.resize(ids.size());
      for (size_t i = 0; i < ids.size(); ++i) clean->stays[i] = ids[i] >= 0;
    }
    const int64_t left = wire::RemoveMarked(absl::MakeSpan(lengths), ids.data(), weights);
    clean->lengths = lengths;
    clean->ids = {ids.data(), left, 8};
    clean->weights = weights;
  }

  absl::Status RoutePooled(size_t index, const CleanFeature& clean) {
    const BatchOutput& output = shape_.outputs[index];
    const plan::TableLayout& layout = output.table->layout;
    batch_.outputs[index].row_count = output.bag_count;
    if (layout.rows_split_over_nodes()) return SplitPooled(index, clean);
    RoutedFeature part;
    part.output = index;
    part.bag_count = part.row_count = output.bag_count;
    part.lengths = clean.lengths;
    part.ids = clean.ids;
    part.weights = clean.weights;
    for (int node : layout.nodes()) batch_.nodes[static_cast<size_t>(node)].push_back(part);
    return absl::OkStatus();
  }

  absl::Status SplitRows(const plan::TableLayout& layout, absl::Span<const int64_t> lengths,
                         absl::Span<const int64_t> ids, const float* weights, bool want_positions,
                         std::vector<plan::NodePart<int64_t>>& parts) {
    plan::JaggedView<int64_t> view;
    view.lengths = lengths;
    view.ids = ids;
    if (weights != nullptr) view.weights = {weights, ids.size()};
    return plan::RowSplitter(layout).Split(view, want_positions, parts);
  }

  absl::Status SplitPooled(size_t index, const CleanFeature& clean) {
    const AttachedTable& table = *shape_.outputs[index].table;
    std::vector<plan::NodePart<int64_t>> parts;
    EMBPS_RETURN_IF_ERROR(
        SplitRows(table.layout, clean.lengths, Widen(clean.ids), clean.weights, /*want_positions=*/false, parts));
    for (size_t i = 0; i < parts.size(); ++i) {
      RoutedFeature part;
      part.output = index;
      part.lengths = Keep(std::move(parts[i].lengths));
      const absl::Span<const int64_t> ids = Keep(std::move(parts[i].ids));
      part.ids = {ids.data(), static_cast<int64_t>(ids.size()), 8};
      if (clean.weights != nullptr) part.weights = batch_.floats.emplace_back(std::move(parts[i].weights)).data();
      if (table.pooling == Pooling::kMean) part.bag_sizes = clean.lengths;
      if (options_.push && !options_.by_token) LeaveOutEmptySlots(&part);
      part.bag_count = part.row_count = static_cast<int64_t>(part.lengths.size());
      batch_.nodes[static_cast<size_t>(table.layout.nodes()[i])].push_back(part);
    }
    return absl::OkStatus();
  }

  void LeaveOutEmptySlots(RoutedFeature* part) {
    std::vector<int64_t> slots = plan::NonEmptySlots(part->lengths);
    if (slots.size() == part->lengths.size()) return;
    const auto pick = [&](absl::Span<const int64_t> from) {
      std::vector<int64_t>& to = NewIntegers(slots.size());
      for (size_t i = 0; i < slots.size(); ++i) to[i] = from[static_cast<size_t>(slots[i])];
      return absl::MakeConstSpan(to);
    };
    part->lengths = pick(part->lengths);
    if (!part->bag_sizes.empty()) part->bag_sizes = pick(part->bag_sizes);
    // An empty list would mean "all": a part without any slot has no rows to place either.
    part->rows = Keep(std::move(slots));
  }

  // The row of each id of the caller: dropped ones have none, the others that of their place among the ids that stay.
  void SetRowOfId(size_t index, const std::vector<bool>& stays, const std::vector<int64_t>& row_of_kept) {
    if (stays.empty() && row_of_kept.empty()) return;
    const auto count = static_cast<size_t>(shape_.outputs[index].id_count);
    std::vector<int64_t>& rows = NewIntegers(count);
    int64_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!stays.empty() && !stays[i]) {
        rows[i] = -1;
        continue;
      }
      rows[i] = row_of_kept.empty() ? kept : row_of_kept[static_cast<size_t>(kept)];
      ++kept;
    }
    batch_.outputs[index].row_of_id = rows;
  }

  absl::Status RouteSequence(size_t index, const CleanFeature& clean) {
    absl::Span<const int64_t> ids = Widen(clean.ids);
    absl::Span<const int64_t> lengths = clean.lengths;
    std::vector<int64_t> row_of_kept;
    if (!options_.push && !options_.by_token) {
      plan::Distinct<int64_t> distinct = plan::DistinctIds(ids);
      if (distinct.unique.size() < ids.size()) {
        ids = Keep(std::move(distinct.unique));
        row_of_kept = std::move(distinct.inverse);
      }
    }
    if (!options_.by_token) {
      std::vector<int64_t>& one_bag = NewIntegers(1);
      one_bag[0] = static_cast<int64_t>(ids.size());
      lengths = one_bag;
    }
    SetRowOfId(index, clean.stays, row_of_kept);
    batch_.outputs[index].row_count = static_cast<int64_t>(ids.size());
    return PlaceSequence(index, lengths, ids);
  }

  absl::Status PlaceSequence(size_t index, absl::Span<const int64_t> lengths, absl::Span<const int64_t> ids) {
    const plan::TableLayout& layout = shape_.outputs[index].table->layout;
    RoutedFeature part;
    part.output = index;
    part.bag_count = static_cast<int64_t>(lengths.size());
    if (!layout.rows_split_over_nodes()) {
      part.lengths = lengths;
      part.ids = {ids.data(), static_cast<int64_t>(ids.size()), 8};
      part.row_count = part.ids.count;
      for (int node : layout.nodes()) batch_.nodes[static_cast<size_t>(node)].push_back(part);
      return absl::OkStatus();
    }
    std::vector<plan::NodePart<int64_t>> parts;
    EMBPS_RETURN_IF_ERROR(SplitRows(layout, lengths, ids, nullptr, /*want_positions=*/true, parts));
    for (size_t i = 0; i < parts.size(); ++i) {
      part.lengths = Keep(std::move(parts[i].lengths));
      const absl::Span<const int64_t> node_ids = Keep(std::move(parts[i].ids));
      part.ids = {node_ids.data(), static_cast<int64_t>(node_ids.size()), 8};
      part.row_count = part.ids.count;
      part.rows = Keep(std::move(parts[i].positions));
      batch_.nodes[static_cast<size_t>(layout.nodes()[i])].push_back(part);
    }
    return absl::OkStatus();
  }

  const BatchShape& shape_;
  const KjtView& kjt_;
  const RouteOptions& options_;
  RoutedBatch batch_;
};

}  // namespace

absl::StatusOr<RoutedBatch> RouteBatch(const BatchShape& shape, const KjtView& kjt, const RouteOptions& options) {
  return BatchRouter(shape, kjt, options).Run();
}

}  // namespace embps::client
