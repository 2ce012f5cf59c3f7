#include "proto/plan/table_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/base/error.h"
#include "proto/plan/node_route.h"
#include "proto/plan/placement_builder.h"
#include "tests/unit/plan/spec_builder.h"

namespace embps::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TableLayout MakeLayout(const v1::TableSpec& spec, v1::ShardingType type, const Cluster& cluster,
                       const PlacementOptions& options = {}) {
  const auto placement = MakePlacement(spec, type, cluster, options);
  EXPECT_TRUE(placement.ok()) << placement.status();
  auto layout = TableLayout::Create(spec, *placement, cluster);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

std::string RefusalOf(const v1::TableSpec& spec, const v1::Placement& placement, const Cluster& cluster) {
  const auto layout = TableLayout::Create(spec, placement, cluster);
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(layout.status()), Reason::kMalformed);
  return std::string(layout.status().message());
}

std::vector<int64_t> RowCounts(absl::Span<const ShardRange> shards) {
  std::vector<int64_t> counts;
  for (const ShardRange& shard : shards) counts.push_back(shard.row_count());
  return counts;
}

TEST(TableLayoutTest, GoldenBucketizeOfTenRowsOnOneNodeOfFourRanks) {
  const TableLayout layout = MakeLayout(MakeSpec("t", 10, 4), v1::SHARDING_TYPE_ROW_WISE, Cluster{{4}});
  EXPECT_EQ(layout.block_rows(), 3);
  EXPECT_THAT(RowCounts(layout.shards()), ElementsAre(3, 3, 3, 1));
  const Buckets buckets = layout.BucketsOf(0);
  EXPECT_EQ(buckets.row_begin, 0);
  EXPECT_EQ(buckets.count, 4);
  const struct {
    int64_t id, local;
    int rank;
  } kGolden[] = {{0, 0, 0}, {2, 2, 0}, {3, 0, 1}, {9, 0, 3}};
  for (const auto& golden : kGolden) {
    EXPECT_EQ(buckets.BucketOf(golden.id), golden.rank) << golden.id;
    EXPECT_EQ(buckets.LocalRow(golden.id), golden.local) << golden.id;
  }
  EXPECT_FALSE(layout.rows_split_over_nodes());
  EXPECT_TRUE(layout.rows_split_over_ranks());
  EXPECT_THAT(layout.node_row_starts(), ElementsAre(0, 10));
}

TEST(TableLayoutTest, GoldenBucketizeOfTenRowsOnTwoNodesOfTwoRanks) {
  const TableLayout layout = MakeLayout(MakeSpec("t", 10, 4), v1::SHARDING_TYPE_ROW_WISE, Cluster{{2, 2}});
  EXPECT_TRUE(layout.rows_split_over_nodes());
  EXPECT_EQ(layout.RowsOf(0), (RowRange{0, 6}));
  EXPECT_EQ(layout.RowsOf(1), (RowRange{6, 10}));
  EXPECT_THAT(layout.node_row_starts(), ElementsAre(0, 6, 10));
  EXPECT_THAT(layout.nodes(), ElementsAre(0, 1));
  const Buckets buckets = layout.BucketsOf(1);
  EXPECT_EQ(buckets.row_begin, 6);
  EXPECT_EQ(buckets.block_rows, 3);
  EXPECT_EQ(buckets.count, 2);
  EXPECT_EQ(buckets.BucketOf(8), 0);
  EXPECT_EQ(buckets.BucketOf(9), 1);
  EXPECT_THAT(layout.ShardsOf(RankId{1, 1}), ElementsAre(ShardRange{{1, 1}, 9, 10, 0, 4}));
}

TEST(TableLayoutTest, N15_FiveRowsOnEightRanksLeaveThreeEmptyShards) {
  const TableLayout layout = MakeLayout(MakeSpec("t", 5, 2), v1::SHARDING_TYPE_ROW_WISE, Cluster{{4, 4}});
  EXPECT_THAT(RowCounts(layout.shards()), ElementsAre(1, 1, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(layout.nodes(), ElementsAre(0, 1));
  EXPECT_EQ(layout.RowsOf(1), (RowRange{4, 5}));
  EXPECT_EQ(layout.ShardsOf(RankId{1, 3}).front(), (ShardRange{{1, 3}, 5, 5, 0, 2}));
}

TEST(TableLayoutTest, N15_OneRowOnEightRanksLeavesWholeNodesWithoutRows) {
  const TableLayout layout = MakeLayout(MakeSpec("t", 1, 2), v1::SHARDING_TYPE_ROW_WISE, Cluster{{2, 2, 2, 2}});
  EXPECT_THAT(RowCounts(layout.shards()), ElementsAre(1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(layout.nodes(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layout.node_row_starts(), ElementsAre(0, 1, 1, 1, 1));
  EXPECT_EQ(layout.RowsOf(3), (RowRange{1, 1}));
  EXPECT_EQ(layout.BucketsOf(3).count, 2);
  EXPECT_TRUE(layout.OwnsShard(3));
}

TEST(TableLayoutTest, N13_BoundariesOfHugeTablesAre64Bit) {
  const TableLayout layout =
      MakeLayout(MakeSpec("t", int64_t{1} << 47, 1), v1::SHARDING_TYPE_ROW_WISE, Cluster{{1, 2}});
  const int64_t block = (int64_t{1} << 47) / 3 + 1;
  EXPECT_EQ(layout.block_rows(), block);
  EXPECT_THAT(layout.node_row_starts(), ElementsAre(0, block, int64_t{1} << 47));
  EXPECT_EQ(layout.BucketsOf(1).BucketOf((int64_t{1} << 47) - 1), 1);
  EXPECT_EQ(layout.BucketsOf(1).LocalRow(2 * block + 5), 5);
}

TEST(TableLayoutTest, TableWiseLivesOnOneRank) {
  const TableLayout layout =
      MakeLayout(MakeSpec("t", 7, 3), v1::SHARDING_TYPE_TABLE_WISE, Cluster{{2, 2}}, {.node = 1, .rank = 1});
  EXPECT_THAT(layout.nodes(), ElementsAre(1));
  EXPECT_THAT(layout.ShardsOf(0), IsEmpty());
  EXPECT_THAT(layout.ShardsOf(RankId{1, 0}), IsEmpty());
  EXPECT_THAT(layout.ShardsOf(RankId{1, 1}), ElementsAre(ShardRange{{1, 1}, 0, 7, 0, 3}));
  EXPECT_EQ(layout.RowsOf(0), RowRange{});
  EXPECT_EQ(layout.RowsOf(1), (RowRange{0, 7}));
  EXPECT_FALSE(layout.rows_split_over_ranks());
  EXPECT_EQ(layout.DimOf(0), 0);
  EXPECT_EQ(layout.DimOf(1), 3);
  EXPECT_EQ(layout.block_rows(), 7);
}

TEST(TableLayoutTest, TableRowWiseCutsRowsOverTheRanksOfItsNode) {
  const TableLayout layout =
      MakeLayout(MakeSpec("t", 10, 3), v1::SHARDING_TYPE_TABLE_ROW_WISE, Cluster{{1, 4}}, {.node = 1});
  EXPECT_THAT(layout.nodes(), ElementsAre(1));
  EXPECT_FALSE(layout.rows_split_over_nodes());
  EXPECT_TRUE(layout.rows_split_over_ranks());
  EXPECT_EQ(layout.block_rows(), 3);
  EXPECT_THAT(RowCounts(layout.ShardsOf(1)), ElementsAre(3, 3, 3, 1));
  EXPECT_EQ(layout.BucketsOf(1).row_begin, 0);
  EXPECT_THAT(layout.node_row_starts(), ElementsAre(0, 10));
}

TEST(TableLayoutTest, DataParallelHasACopyOnEachRankOfItsNode) {
  const TableLayout layout =
      MakeLayout(MakeSpec("t", 10, 3), v1::SHARDING_TYPE_DATA_PARALLEL, Cluster{{1, 3}}, {.node = 1});
  EXPECT_THAT(layout.nodes(), ElementsAre(1));
  EXPECT_THAT(RowCounts(layout.ShardsOf(1)), ElementsAre(10, 10, 10));
  EXPECT_EQ(layout.RowsOf(1), (RowRange{0, 10}));
  EXPECT_EQ(layout.DimOf(1), 3);
}

TEST(TableLayoutTest, ColumnSlicesStandInColumnOrderOnEachNode) {
  PlacementOptions options;
  options.slice_homes = {{1, 1}, {0, 0}, {1, 0}, {1, 1}};
  const TableLayout layout = MakeLayout(MakeSpec("t", 10, 16), v1::SHARDING_TYPE_COLUMN_WISE, Cluster{{1, 2}}, options);
  EXPECT_TRUE(layout.columns_split_over_nodes());
  EXPECT_THAT(layout.nodes(), ElementsAre(0, 1));
  EXPECT_EQ(layout.column_slices().size(), 4u);
  EXPECT_THAT(layout.ColumnSlicesOf(1), ElementsAre(ShardRange{{1, 1}, 0, 10, 0, 4}, ShardRange{{1, 0}, 0, 10, 8, 12},
                                                    ShardRange{{1, 1}, 0, 10, 12, 16}));
  EXPECT_THAT(layout.ShardsOf(RankId{1, 1}),
              ElementsAre(ShardRange{{1, 1}, 0, 10, 0, 4}, ShardRange{{1, 1}, 0, 10, 12, 16}));
  EXPECT_EQ(layout.DimOf(0), 4);
  EXPECT_EQ(layout.DimOf(1), 12);
}

TEST(NodeRouteTest, FollowsTheShardsOfTheNode) {
  PlacementOptions options;
  options.slice_homes = {{1, 1}, {0, 0}, {1, 0}, {1, 1}};
  const NodeRoute columns =
      RouteOf(MakeLayout(MakeSpec("t", 10, 16), v1::SHARDING_TYPE_COLUMN_WISE, Cluster{{1, 2}}, options), 1);
  EXPECT_EQ(columns.kind, RouteKind::kWhole);
  EXPECT_THAT(columns.owners, ElementsAre(0, 1));
  EXPECT_EQ(columns.dim, 12);
  ASSERT_EQ(columns.slices.size(), 3u);
  const int ranks[] = {1, 0, 1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(columns.slices[i].rank, ranks[i]);
    EXPECT_EQ(columns.slices[i].node_column, 4 * i);
    EXPECT_EQ(columns.slices[i].width, 4);
  }

  const NodeRoute rows = RouteOf(MakeLayout(MakeSpec("t", 10, 4), v1::SHARDING_TYPE_ROW_WISE, Cluster{{2, 2}}), 1);
  EXPECT_EQ(rows.kind, RouteKind::kRows);
  EXPECT_EQ(rows.buckets.row_begin, 6);
  EXPECT_EQ(rows.buckets.count, 2);
  EXPECT_TRUE(rows.Owns(1));

  const NodeRoute copies = RouteOf(MakeLayout(MakeSpec("t", 10, 4), v1::SHARDING_TYPE_DATA_PARALLEL, Cluster{{2}}), 0);
  EXPECT_EQ(copies.kind, RouteKind::kCopies);
  EXPECT_THAT(copies.owners, ElementsAre(0, 1));
  EXPECT_THAT(copies.slices, IsEmpty());
}

TEST(TableLayoutTest, ForeignPlacementsAreRefusedWithTheShardNamed) {
  const v1::TableSpec spec = MakeSpec("t", 10, 8);
  const Cluster cluster{{2, 2}};
  const v1::Placement row_wise = *MakePlacement(spec, v1::SHARDING_TYPE_ROW_WISE, cluster);

  v1::Placement placement = row_wise;
  placement.mutable_shards(1)->set_row_end(7);
  EXPECT_THAT(RefusalOf(spec, placement, cluster),
              testing::AllOf(HasSubstr("table 'default/t', ROW_WISE: shards[1] is rows [3, 7)"),
                             HasSubstr("expected rows [3, 6) columns [0, 8) on node 0 rank 1")));

  placement = row_wise;
  placement.mutable_shards()->RemoveLast();
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("3 shards, expected 4"));

  placement = row_wise;
  placement.mutable_shards()->SwapElements(0, 1);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("shards[0]"));

  placement = row_wise;
  placement.mutable_shards(3)->set_node(2);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("expected a rank that the cluster has"));

  placement = row_wise;
  placement.mutable_shards(2)->set_rank(-1);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("shards[2]"));

  placement = row_wise;
  placement.clear_shards();
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("no shards"));

  placement = row_wise;
  placement.set_sharding_type(v1::SHARDING_TYPE_UNSPECIFIED);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("sharding_type UNSPECIFIED"));

  placement = row_wise;
  placement.set_sharding_type(v1::SHARDING_TYPE_TABLE_WISE);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("expected rows [0, 10) columns [0, 8)"));
}

TEST(TableLayoutTest, PlacementsMadeForAnotherClusterAreRefused) {
  const v1::TableSpec spec = MakeSpec("t", 10, 8);
  const v1::Placement row_wise = *MakePlacement(spec, v1::SHARDING_TYPE_ROW_WISE, Cluster{{2, 2}});
  EXPECT_FALSE(TableLayout::Create(spec, row_wise, Cluster{{4}}).ok());
  EXPECT_FALSE(TableLayout::Create(spec, row_wise, Cluster{{2, 3}}).ok());
}

TEST(TableLayoutTest, DataParallelCopiesOnSeveralNodesAreRefused) {
  const v1::TableSpec spec = MakeSpec("t", 10, 8);
  const Cluster cluster{{1, 1}};
  v1::Placement placement = *MakePlacement(spec, v1::SHARDING_TYPE_DATA_PARALLEL, cluster);
  *placement.add_shards() = placement.shards(0);
  placement.mutable_shards(1)->set_node(1);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("2 shards, expected 1"));
}

TEST(TableLayoutTest, ColumnSlicesMustCoverTheWidthOnce) {
  const v1::TableSpec spec = MakeSpec("t", 10, 8);
  const Cluster cluster{{2}};
  const v1::Placement good = *MakePlacement(spec, v1::SHARDING_TYPE_COLUMN_WISE, cluster);
  ASSERT_EQ(good.shards_size(), 2);

  v1::Placement placement = good;  // overlap
  placement.mutable_shards(1)->set_column_begin(3);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("shards[1]"));
  placement = good;  // gap
  placement.mutable_shards(0)->set_column_end(3);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("shards[1]"));
  placement = good;  // no columns
  placement.mutable_shards(0)->set_column_end(0);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("shards[0]"));
  placement = good;  // too wide
  placement.mutable_shards(1)->set_column_end(9);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("shards[1]"));
  placement = good;  // not all rows
  placement.mutable_shards(1)->set_row_end(9);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("rows [0, 10)"));
  placement = good;  // too narrow
  placement.mutable_shards(1)->set_column_end(7);
  EXPECT_THAT(RefusalOf(spec, placement, cluster), HasSubstr("slices end at column 7, dim is 8"));
  placement = good;  // uneven slices are legal
  placement.mutable_shards(0)->set_column_end(1);
  placement.mutable_shards(1)->set_column_begin(1);
  EXPECT_TRUE(TableLayout::Create(spec, placement, cluster).ok());
}

}  // namespace
}  // namespace embps::plan
