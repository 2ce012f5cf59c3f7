#include "proto/plan/placement_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/base/error.h"
#include "tests/unit/plan/spec_builder.h"

namespace embps::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string RefusalOf(v1::ShardingType type, const PlacementOptions& options) {
  const auto placement = MakePlacement(MakeSpec("t", 10, 8), type, Cluster{{2, 1}}, options);
  EXPECT_EQ(ReasonOf(placement.status()), Reason::kMalformed);
  return std::string(placement.status().message());
}

TEST(PlacementBuilderTest, ColumnEdgesAreMultiplesOfFourWhereTheWidthAllows) {
  EXPECT_THAT(ColumnEdges(128, 4), ElementsAre(0, 32, 64, 96, 128));
  EXPECT_THAT(ColumnEdges(33, 2), ElementsAre(0, 16, 33));
  EXPECT_THAT(ColumnEdges(20, 3), ElementsAre(0, 4, 12, 20));
  EXPECT_THAT(ColumnEdges(8, 1), ElementsAre(0, 8));
  // Too narrow for quanta: the two slices of two of numerics.md's golden row.
  EXPECT_THAT(ColumnEdges(4, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(ColumnEdges(3, 3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ColumnEdges(7, 2), ElementsAre(0, 3, 7));
}

TEST(PlacementBuilderTest, DefaultSliceCountKeepsFourColumnsEach) {
  EXPECT_EQ(DefaultColumnSlices(64, 4), 4);
  EXPECT_EQ(DefaultColumnSlices(8, 4), 2);
  EXPECT_EQ(DefaultColumnSlices(3, 4), 1);
}

TEST(PlacementBuilderTest, ColumnSlicesGoRoundTheRanksFromTheGivenHome) {
  const auto placement = MakePlacement(MakeSpec("t", 10, 16), v1::SHARDING_TYPE_COLUMN_WISE, Cluster{{2, 1}},
                                       {.node = 1, .rank = 0, .column_slices = 4});
  ASSERT_TRUE(placement.ok());
  ASSERT_EQ(placement->shards_size(), 4);
  const RankId expected[] = {{1, 0}, {0, 0}, {0, 1}, {1, 0}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ((RankId{placement->shards(i).node(), placement->shards(i).rank()}), expected[i]);
    EXPECT_EQ(placement->shards(i).column_begin(), 4 * i);
    EXPECT_EQ(placement->shards(i).row_end(), 10);
  }
}

TEST(PlacementBuilderTest, HomesThatDoNotExistAreRefused) {
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_TABLE_WISE, {.node = 2}), HasSubstr("node 2 rank 0"));
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_TABLE_WISE, {.node = 1, .rank = 1}), HasSubstr("node 1 rank 1"));
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_TABLE_ROW_WISE, {.node = -1}), HasSubstr("node -1"));
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_DATA_PARALLEL, {.node = 5}), HasSubstr("node 5"));
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_COLUMN_WISE, {.slice_homes = {{0, 0}, {0, 2}}}),
              HasSubstr("slice_homes[1] is node 0 rank 2"));
}

TEST(PlacementBuilderTest, SliceCountsMustFit) {
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_COLUMN_WISE, {.column_slices = 9}), HasSubstr("column_slices 9"));
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_COLUMN_WISE, {.column_slices = -1}), HasSubstr("column_slices -1"));
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_COLUMN_WISE, {.column_slices = 3, .slice_homes = {{0, 0}}}),
              HasSubstr("slice_homes has 1 entries for 3"));
}

TEST(PlacementBuilderTest, NoTypeNoPlacement) {
  EXPECT_THAT(RefusalOf(v1::SHARDING_TYPE_UNSPECIFIED, {}), HasSubstr("sharding_type UNSPECIFIED"));
  EXPECT_THAT(RefusalOf(static_cast<v1::ShardingType>(42), {}), HasSubstr("sharding_type 42"));
}

}  // namespace
}  // namespace embps::plan
