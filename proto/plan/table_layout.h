// A validated placement, in the form that servers and clients route by. Immutable; cheap to copy by shared_ptr.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "embps/v1/types.pb.h"
#include "proto/plan/cluster.h"

namespace embps::plan {

inline constexpr int kMaxShards = 4096;

// Rows [row_begin, row_end) x columns [column_begin, column_end) on one rank. Rows may be empty, columns never are.
struct ShardRange {
  RankId home;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int32_t column_begin = 0;
  int32_t column_end = 0;

  int64_t row_count() const { return row_end - row_begin; }
  int32_t column_count() const { return column_end - column_begin; }
  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
  bool Contains(int64_t row) const { return row >= begin && row < end; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// How the row-wise ids of one node fall to its ranks, as kernels::BucketizeTask wants it: bucket b is rank b, and
// b = (id - row_begin) / block_rows. Ids come from RowsOf(node).
struct Buckets {
  int64_t row_begin = 0;
  int64_t block_rows = 1;  // >= 1
  int32_t count = 0;       // W of the node

  int32_t BucketOf(int64_t id) const { return static_cast<int32_t>((id - row_begin) / block_rows); }
  // Row of the shard: its local row 0 is the first row of its block.
  int64_t LocalRow(int64_t id) const { return (id - row_begin) % block_rows; }
};

class TableLayout {
 public:
  // Checks that the shards are what the sharding type allows on this cluster and cover the table:
  //   TABLE_WISE      one shard: all rows, all columns
  //   ROW_WISE        shard q on global rank q, rows [min(q * block, R), min((q + 1) * block, R)), block = ceil(R / Q)
  //   COLUMN_WISE     one shard per slice, all rows; slices adjoin; a rank may hold several slices
  //   TABLE_ROW_WISE  as ROW_WISE over the W ranks of one node
  //   DATA_PARALLEL   one shard per rank of one node, all rows, all columns
  // Shards must be in the order of types.proto, (row_begin, column_begin, node, rank). A fault is INVALID_ARGUMENT
  // MALFORMED naming the table, the shard's index, what it is and what was expected. `spec` must be valid.
  static absl::StatusOr<TableLayout> Create(const v1::TableSpec& spec, const v1::Placement& placement,
                                            const Cluster& cluster);

  v1::ShardingType type() const { return type_; }
  int64_t row_count() const { return row_count_; }  // R
  int32_t dim() const { return dim_; }              // D
  const Cluster& cluster() const { return cluster_; }

  // All shards in placement order; of a node by (rank, row_begin, column_begin); of a rank by (row_begin,
  // column_begin).
  absl::Span<const ShardRange> shards() const { return shards_; }
  absl::Span<const ShardRange> ShardsOf(int node) const;
  absl::Span<const ShardRange> ShardsOf(RankId id) const;

  // Nodes that own a shard, empty shards included, ascending: those that every push of the table goes to.
  absl::Span<const int> nodes() const { return nodes_; }
  bool OwnsShard(int node) const { return !ShardsOf(node).empty(); }

  // Whether bags are split: over nodes (the client bucketizes ids and adds partial sums, nodes are told bag_sizes), and
  // over ranks of a node (ROW_WISE and TABLE_ROW_WISE; also when W = 1).
  bool rows_split_over_nodes() const { return type_ == v1::SHARDING_TYPE_ROW_WISE && nodes_.size() > 1; }
  bool rows_split_over_ranks() const {
    return type_ == v1::SHARDING_TYPE_ROW_WISE || type_ == v1::SHARDING_TYPE_TABLE_ROW_WISE;
  }
  bool columns_split_over_nodes() const { return type_ == v1::SHARDING_TYPE_COLUMN_WISE && nodes_.size() > 1; }

  // Rows that this node holds, one contiguous range; empty if it owns no shard.
  RowRange RowsOf(int node) const;
  // First row of each of nodes() and R after the last: node nodes()[i] holds [starts[i], starts[i + 1]) if rows are
  // split over nodes, else the one range [0, R).
  absl::Span<const int64_t> node_row_starts() const { return node_row_starts_; }

  // ceil(R / Q) for ROW_WISE, ceil(R / W) for TABLE_ROW_WISE, else R.
  int64_t block_rows() const { return block_rows_; }
  // Of a node with rows_split_over_ranks().
  Buckets BucketsOf(int node) const;

  // The column slices, ascending; one that is the whole row unless COLUMN_WISE.
  absl::Span<const ShardRange> column_slices() const { return column_slices_; }
  // Those of one node, ascending by column_begin. What a node answers of a COLUMN_WISE table, and takes as gradients,
  // is its slices side by side in this order: DimOf(node) columns.
  std::vector<ShardRange> ColumnSlicesOf(int node) const;
  int32_t DimOf(int node) const;

 private:
  TableLayout() = default;
  void Index();

  v1::ShardingType type_ = v1::SHARDING_TYPE_UNSPECIFIED;
  int64_t row_count_ = 0;
  int32_t dim_ = 0;
  int64_t block_rows_ = 0;
  Cluster cluster_;
  std::vector<ShardRange> shards_;         // placement order
  std::vector<ShardRange> by_rank_;        // by (node, rank, row_begin, column_begin)
  std::vector<int> rank_starts_;           // [Q + 1] into by_rank_
  std::vector<int> nodes_;                 // ascending
  std::vector<int64_t> node_row_starts_;   // see node_row_starts()
  std::vector<ShardRange> column_slices_;  // by column_begin
};

}  // namespace embps::plan
