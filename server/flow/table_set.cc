#include "server/flow/table_set.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps {

absl::Status TableSet::Find(const ShardStore& store, const FeatureList& features) {
  for (int f = 0; f < features.size(); ++f) {
    const v1::Feature& feature = features[f];
    auto found = by_uid_.find(feature.table_uid());
    if (found == by_uid_.end()) {
      std::shared_ptr<Table> table = store.FindByUid(feature.table_uid());
      if (table == nullptr) continue;
      const v1::TableSpec& spec = table->spec();
      wire::TableInfo info{table->name(),         spec.row_count(),           table->node_dim(),
                           spec.id_type(),        table->placement_version(), table->node_rows().begin,
                           table->node_rows().end};
      any_narrow_ = any_narrow_ || table->node_dim() != spec.dim();
      found = by_uid_.emplace(feature.table_uid(), Entry{std::move(table), std::move(info)}).first;
    }
    const Table& table = *found->second.table;
    // A stale placement is told as such by the decoder, whatever else does not fit.
    if (feature.placement_version() != table.placement_version()) continue;
    if (!table.layout().OwnsShard(table.node())) {
      return MakeError(Reason::kBadJaggedLayout, absl::StrCat("features[", f, "]: node ", table.node(),
                                                              " holds no shard of table ", table.name()));
    }
    if (table.layout().rows_split_over_nodes() && feature.pooling() == v1::POOLING_MEAN && !feature.split_bags()) {
      return MakeError(Reason::kBadJaggedLayout,
                       absl::StrCat("features[", f, "]: rows of table ", table.name(),
                                    " lie on several nodes, so MEAN needs split_bags and bag_sizes"));
    }
  }
  return absl::OkStatus();
}

absl::Status TableSet::Narrow(FeatureList& features) const {
  for (int f = 0; f < features.size(); ++f) {
    const auto found = by_uid_.find(features[f].table_uid());
    if (found == by_uid_.end()) continue;
    const Table& table = *found->second.table;
    if (table.node_dim() == table.spec().dim()) continue;
    if (features[f].dim() != table.spec().dim()) {
      return MakeError(Reason::kDimMismatch, absl::StrFormat("features[%d].dim: %d, table %s has %d", f,
                                                             features[f].dim(), table.name(), table.spec().dim()));
    }
    features[f].set_dim(table.node_dim());
  }
  return absl::OkStatus();
}

wire::TableResolver TableSet::resolver() const {
  return [this](uint64_t uid) -> const wire::TableInfo* {
    const auto found = by_uid_.find(uid);
    return found == by_uid_.end() ? nullptr : &found->second.info;
  };
}

void TableSet::Order(const wire::DecodedBatch& layout) {
  for (const wire::TableSlice& slice : layout.tables) {
    tables_.push_back(by_uid_.at(slice.table_uid).table);
    routes_.push_back(plan::RouteOf(tables_.back()->layout(), tables_.back()->node()));
  }
}

wire::DecodeLimits DecodeLimitsOf(const v1::Limits& limits) {
  wire::DecodeLimits out;
  out.max_features = limits.max_features();
  out.max_bags = static_cast<int64_t>(limits.max_bags());
  out.max_ids = static_cast<int64_t>(limits.max_ids());
  return out;
}

}  // namespace embps
