// Placements from a sharding type and a few choices. Whatever it returns, TableLayout::Create accepts.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "embps/v1/types.pb.h"
#include "proto/plan/cluster.h"

namespace embps::plan {

// Edges of column slices are multiples of it wherever the width allows.
inline constexpr int32_t kColumnQuantum = 4;

struct PlacementOptions {
  // Node of TABLE_WISE, TABLE_ROW_WISE and DATA_PARALLEL; node of the first slice of COLUMN_WISE.
  int node = 0;
  // Rank within the node of TABLE_WISE and of the first slice of COLUMN_WISE.
  int rank = 0;
  // COLUMN_WISE: number of slices, 1 to D; 0 = DefaultColumnSlices(D, Q), or as many as slice_homes.
  int column_slices = 0;
  // COLUMN_WISE: home of each slice, ascending columns. Empty = (node, rank) and the global ranks after it, in turn.
  std::vector<RankId> slice_homes = {};
};

// min(Q, D / kColumnQuantum), at least 1.
int DefaultColumnSlices(int32_t dim, int rank_count);

// Edges of `slices` near-equal column slices, 0 first and D last: [slices + 1]. Multiples of kColumnQuantum (but for D)
// if there are enough quanta for all slices, else single columns are dealt out. 1 <= slices <= dim.
std::vector<int32_t> ColumnEdges(int32_t dim, int slices);

// Rows of a row-wise shard over `parts` ranks: ceil(rows / parts).
constexpr int64_t BlockRows(int64_t rows, int parts) { return rows / parts + (rows % parts != 0); }

// INVALID_ARGUMENT when the options name a node, rank or slice count that does not exist, or the type is UNSPECIFIED.
// `spec` and `cluster` must be valid.
absl::StatusOr<v1::Placement> MakePlacement(const v1::TableSpec& spec, v1::ShardingType type, const Cluster& cluster,
                                            const PlacementOptions& options = {});

}  // namespace embps::plan
