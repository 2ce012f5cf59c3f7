// How the batch of one table spreads over the ranks of one node: what the exchanges of a node need of a layout.
#pragma once
#include <cstdint>
#include <vector>

#include "proto/plan/table_layout.h"

namespace embps::plan {

enum class RouteKind : uint8_t {
  kWhole,   // all ids go to each owner, each answers its columns: TABLE_WISE, COLUMN_WISE
  kRows,    // ids are bucketized over all ranks, each answers partial sums: ROW_WISE, TABLE_ROW_WISE
  kCopies,  // lookups stay at home, updates go to every rank: DATA_PARALLEL
};

// Columns [node_column, node_column + width) of the node's rows lie on `rank`.
struct RouteSlice {
  int rank = 0;
  int32_t node_column = 0;
  int32_t width = 0;
};

struct NodeRoute {
  RouteKind kind = RouteKind::kWhole;
  std::vector<int> owners;         // ranks that shards of the table lie on, ascending
  std::vector<RouteSlice> slices;  // ascending columns; kRows and kCopies: empty
  Buckets buckets;                 // kRows only
  int32_t dim = 0;                 // TableLayout::DimOf(node)

  bool Owns(int rank) const {
    for (const int owner : owners) {
      if (owner == rank) return true;
    }
    return false;
  }
};

// `node` must own a shard.
inline NodeRoute RouteOf(const TableLayout& layout, int node) {
  NodeRoute route;
  route.dim = layout.DimOf(node);
  for (const ShardRange& shard : layout.ShardsOf(node)) {
    if (route.owners.empty() || route.owners.back() != shard.home.rank) route.owners.push_back(shard.home.rank);
  }
  if (layout.type() == v1::SHARDING_TYPE_DATA_PARALLEL) {
    route.kind = RouteKind::kCopies;
  } else if (layout.rows_split_over_ranks()) {
    route.kind = RouteKind::kRows;
    route.buckets = layout.BucketsOf(node);
  } else {
    int32_t column = 0;
    for (const ShardRange& slice : layout.ColumnSlicesOf(node)) {
      route.slices.push_back({slice.home.rank, column, slice.column_count()});
      column += slice.column_count();
    }
  }
  return route;
}

}  // namespace embps::plan
