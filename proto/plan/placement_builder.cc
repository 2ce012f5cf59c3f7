#include "proto/plan/placement_builder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/table_layout.h"
#include "proto/plan/table_spec.h"

namespace embps::plan {
namespace {

absl::Status Refuse(const v1::TableSpec& spec, absl::string_view what) {
  return MakeError(Reason::kMalformed, absl::StrCat("table '", QualifiedName(spec), "': ", what));
}

// A shard of all columns and rows [begin, end) cut to the table.
void AddRows(const v1::TableSpec& spec, RankId home, int64_t begin, int64_t end, v1::Placement& placement) {
  v1::Shard& shard = *placement.add_shards();
  shard.set_node(home.node);
  shard.set_rank(home.rank);
  shard.set_row_begin(std::min(begin, spec.row_count()));
  shard.set_row_end(std::min(end, spec.row_count()));
  shard.set_column_end(spec.dim());
}

void AddRowBlocks(const v1::TableSpec& spec, const Cluster& cluster, int first_rank, int rank_count,
                  v1::Placement& placement) {
  const int64_t block = BlockRows(spec.row_count(), rank_count);
  for (int q = 0; q < rank_count; ++q) {
    AddRows(spec, cluster.RankOf(first_rank + q), q * block, (q + 1) * block, placement);
  }
}

absl::Status AddColumnSlices(const v1::TableSpec& spec, const Cluster& cluster, const PlacementOptions& options,
                             v1::Placement& placement) {
  const auto& homes = options.slice_homes;
  int slices = options.column_slices;
  if (slices == 0) {
    slices = homes.empty() ? DefaultColumnSlices(spec.dim(), cluster.rank_count()) : static_cast<int>(homes.size());
  }
  if (slices < 1 || slices > spec.dim()) {
    return Refuse(spec, absl::StrCat("column_slices ", slices, ", must be 1 to dim, which is ", spec.dim()));
  }
  if (!homes.empty() && static_cast<int>(homes.size()) != slices) {
    return Refuse(spec, absl::StrCat("slice_homes has ", homes.size(), " entries for ", slices, " column slices"));
  }
  const std::vector<int32_t> edges = ColumnEdges(spec.dim(), slices);
  const int first = homes.empty() ? cluster.GlobalRank({options.node, options.rank}) : 0;
  for (int i = 0; i < slices; ++i) {
    const RankId home = homes.empty() ? cluster.RankOf((first + i) % cluster.rank_count()) : homes[i];
    if (!cluster.Contains(home)) {
      return Refuse(spec, absl::StrCat("slice_homes[", i, "] is node ", home.node, " rank ", home.rank,
                                       ", which the cluster does not have"));
    }
    AddRows(spec, home, 0, spec.row_count(), placement);
    v1::Shard& shard = *placement.mutable_shards(i);
    shard.set_column_begin(edges[i]);
    shard.set_column_end(edges[i + 1]);
  }
  return absl::OkStatus();
}

absl::Status CheckHome(const v1::TableSpec& spec, v1::ShardingType type, const Cluster& cluster,
                       const PlacementOptions& options) {
  if (type == v1::SHARDING_TYPE_ROW_WISE) return absl::OkStatus();
  if (type == v1::SHARDING_TYPE_COLUMN_WISE && !options.slice_homes.empty()) return absl::OkStatus();
  const bool rank_matters = type == v1::SHARDING_TYPE_TABLE_WISE || type == v1::SHARDING_TYPE_COLUMN_WISE;
  if (cluster.Contains({options.node, rank_matters ? options.rank : 0})) return absl::OkStatus();
  return Refuse(spec, absl::StrCat(ShortName(type), " asks for node ", options.node,
                                   rank_matters ? absl::StrCat(" rank ", options.rank) : "", ", which the cluster of ",
                                   cluster.node_count(), " nodes does not have"));
}

}  // namespace

int DefaultColumnSlices(int32_t dim, int rank_count) {
  return std::max(1, std::min<int>(rank_count, dim / kColumnQuantum));
}

std::vector<int32_t> ColumnEdges(int32_t dim, int slices) {
  EMBPS_CHECK(slices >= 1 && slices <= dim);
  const int32_t quanta = dim / kColumnQuantum;
  const int32_t unit = quanta >= slices ? kColumnQuantum : 1;
  const int32_t units = dim / unit;
  std::vector<int32_t> edges(slices + 1);
  for (int i = 0; i < slices; ++i) edges[i] = static_cast<int32_t>(int64_t{units} * i / slices) * unit;
  edges[slices] = dim;
  return edges;
}

absl::StatusOr<v1::Placement> MakePlacement(const v1::TableSpec& spec, v1::ShardingType type, const Cluster& cluster,
                                            const PlacementOptions& options) {
  EMBPS_RETURN_IF_ERROR(CheckHome(spec, type, cluster, options));
  v1::Placement placement;
  placement.set_sharding_type(type);
  switch (type) {
    case v1::SHARDING_TYPE_TABLE_WISE:
      AddRows(spec, {options.node, options.rank}, 0, spec.row_count(), placement);
      return placement;
    case v1::SHARDING_TYPE_ROW_WISE:
      AddRowBlocks(spec, cluster, 0, cluster.rank_count(), placement);
      return placement;
    case v1::SHARDING_TYPE_COLUMN_WISE:
      EMBPS_RETURN_IF_ERROR(AddColumnSlices(spec, cluster, options, placement));
      return placement;
    case v1::SHARDING_TYPE_TABLE_ROW_WISE:
      AddRowBlocks(spec, cluster, cluster.FirstRankOf(options.node), cluster.ranks_per_node[options.node], placement);
      return placement;
    case v1::SHARDING_TYPE_DATA_PARALLEL:
      for (int rank = 0; rank < cluster.ranks_per_node[options.node]; ++rank) {
        AddRows(spec, {options.node, rank}, 0, spec.row_count(), placement);
      }
      return placement;
    default:
      return Refuse(spec, absl::StrCat("sharding_type ", ShortName(type), " is not one to place by"));
  }
}

}  // namespace embps::plan
