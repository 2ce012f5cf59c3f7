#include "proto/plan/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "proto/base/error.h"
#include "proto/plan/placement_builder.h"
#include "tests/unit/plan/spec_builder.h"

namespace embps::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RowSplitterTest, KeepsOrderAndEverySlotOnEveryNode) {
  const std::vector<int64_t> starts = {0, 6, 10};
  const std::vector<int64_t> lengths = {3, 0, 2, 1};
  const std::vector<int64_t> ids = {9, 1, 6, 5, 0, 7};
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  RowSplitter splitter(starts);
  std::vector<NodePart<int64_t>> parts;
  ASSERT_TRUE(splitter.Split({lengths, ids, weights}, true, parts).ok());
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(parts[0].lengths, ElementsAre(1, 0, 2, 0));
  EXPECT_THAT(parts[0].ids, ElementsAre(1, 5, 0));
  EXPECT_THAT(parts[0].weights, ElementsAre(2, 4, 5));
  EXPECT_THAT(parts[0].positions, ElementsAre(1, 3, 4));
  EXPECT_THAT(parts[1].lengths, ElementsAre(2, 0, 0, 1));
  EXPECT_THAT(parts[1].ids, ElementsAre(9, 6, 7));
  EXPECT_THAT(parts[1].weights, ElementsAre(1, 3, 6));
  EXPECT_THAT(parts[1].positions, ElementsAre(0, 2, 5));
  EXPECT_THAT(NonEmptySlots(parts[0].lengths), ElementsAre(0, 2));
  EXPECT_THAT(NonEmptySlots(parts[1].lengths), ElementsAre(0, 3));
}

TEST(RowSplitterTest, N4_EmptyBatchGivesEmptyParts) {
  RowSplitter splitter(std::vector<int64_t>{0, 6, 10});
  std::vector<NodePart<int64_t>> parts;
  ASSERT_TRUE(splitter.Split({}, true, parts).ok());
  ASSERT_EQ(parts.size(), 2u);
  for (const auto& part : parts) {
    EXPECT_THAT(part.lengths, IsEmpty());
    EXPECT_THAT(part.ids, IsEmpty());
  }
  const std::vector<int64_t> only_empty_bags = {0, 0, 0};
  ASSERT_TRUE(splitter.Split({only_empty_bags, {}, {}}, false, parts).ok());
  EXPECT_THAT(parts[1].lengths, ElementsAre(0, 0, 0));
}

TEST(RowSplitterTest, ReusedPartsHoldNothingOfTheCallBefore) {
  RowSplitter splitter(std::vector<int64_t>{0, 5, 10});
  std::vector<NodePart<int64_t>> parts(7);
  const std::vector<int64_t> lengths = {2}, ids = {0, 9};
  const std::vector<float> weights = {1, 2};
  ASSERT_TRUE(splitter.Split({lengths, ids, weights}, true, parts).ok());
  ASSERT_EQ(parts.size(), 2u);
  const std::vector<int64_t> one = {1}, low = {3};
  ASSERT_TRUE(splitter.Split({one, low, {}}, false, parts).ok());
  EXPECT_THAT(parts[0].ids, ElementsAre(3));
  EXPECT_THAT(parts[0].weights, IsEmpty());
  EXPECT_THAT(parts[0].positions, IsEmpty());
  EXPECT_THAT(parts[1].ids, IsEmpty());
  EXPECT_THAT(parts[1].lengths, ElementsAre(0));
}

TEST(RowSplitterTest, N13_IdsKeepTheWidthOfTheTableWhateverTheirValues) {
  // The same small ids in both widths, and ids that only fit 64 bits.
  RowSplitter narrow(std::vector<int64_t>{0, 2, int64_t{1} << 31});
  std::vector<NodePart<int32_t>> narrow_parts;
  const std::vector<int64_t> lengths = {2, 1};
  const std::vector<int32_t> narrow_ids = {1, std::numeric_limits<int32_t>::max(), 0};
  ASSERT_TRUE(narrow.Split({lengths, narrow_ids, {}}, false, narrow_parts).ok());
  EXPECT_THAT(narrow_parts[0].ids, ElementsAre(1, 0));
  EXPECT_THAT(narrow_parts[1].ids, ElementsAre(std::numeric_limits<int32_t>::max()));

  const int64_t rows = int64_t{1} << 47;
  RowSplitter wide(std::vector<int64_t>{0, rows / 2, rows});
  std::vector<NodePart<int64_t>> wide_parts;
  const std::vector<int64_t> wide_ids = {rows - 1, rows / 2 - 1, int64_t{1} << 33};
  ASSERT_TRUE(wide.Split({lengths, wide_ids, {}}, false, wide_parts).ok());
  EXPECT_THAT(wide_parts[0].ids, ElementsAre(rows / 2 - 1, int64_t{1} << 33));
  EXPECT_THAT(wide_parts[1].ids, ElementsAre(rows - 1));
}

TEST(RowSplitterTest, S10_ExtremeIdsAreRefusedOnAnyNumberOfShardsAndTheEdgesWork) {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int nodes : {1, 2, 3, 7, 40}) {
    const Cluster cluster{std::vector<int>(nodes, 1)};
    const v1::TableSpec spec = MakeSpec("t", kRows, 4);
    const auto placement = MakePlacement(spec, v1::SHARDING_TYPE_ROW_WISE, cluster);
    RowSplitter splitter(*TableLayout::Create(spec, *placement, cluster));
    ASSERT_EQ(splitter.node_count(), nodes);
    std::vector<NodePart<int64_t>> parts;
    const std::vector<int64_t> lengths = {1, 2};
    for (const int64_t bad : {int64_t{-1}, int64_t{-2}, kMin, kMax, kRows}) {
      const std::vector<int64_t> ids = {0, kRows - 1, bad};
      const absl::Status status = splitter.Split({lengths, ids, {}}, false, parts);
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << bad << " on " << nodes;
      EXPECT_EQ(ReasonOf(status), Reason::kIdOutOfRange);
      EXPECT_EQ(MetadataValue(status, "first_bad_id"), std::to_string(bad));
      EXPECT_EQ(MetadataValue(status, "position"), "2");
      EXPECT_EQ(MetadataValue(status, "count"), "1");
      EXPECT_EQ(MetadataValue(status, "rows"), "1000");
    }
    const std::vector<int64_t> edges = {0, kRows - 1, 0};
    ASSERT_TRUE(splitter.Split({lengths, edges, {}}, false, parts).ok());
    EXPECT_EQ(parts.front().ids.front(), 0);
    EXPECT_EQ(parts.back().ids.size(), nodes == 1 ? 3u : 1u);
    EXPECT_EQ(parts.back().ids[nodes == 1 ? 1 : 0], kRows - 1);
  }
}

TEST(RowSplitterTest, S10_NegativeInt32IdsAreSignExtendedBeforeTheyAreCompared) {
  RowSplitter splitter(std::vector<int64_t>{0, 10, int64_t{1} << 31});
  std::vector<NodePart<int32_t>> parts;
  const std::vector<int64_t> lengths = {2};
  const std::vector<int32_t> ids = {3, -1};
  EXPECT_EQ(MetadataValue(splitter.Split({lengths, ids, {}}, false, parts), "first_bad_id"), "-1");
}

TEST(DistinctIdsTest, StandInTheOrderOfTheirFirstOccurrence) {
  const std::vector<int64_t> ids = {7, 3, 7, 7, 0, 3, int64_t{1} << 40};
  const Distinct<int64_t> distinct = DistinctIds(ids);
  EXPECT_THAT(distinct.unique, ElementsAre(7, 3, 0, int64_t{1} << 40));
  EXPECT_THAT(distinct.inverse, ElementsAre(0, 1, 0, 0, 2, 1, 3));
  EXPECT_THAT(DistinctIds(std::vector<int32_t>{}).unique, IsEmpty());
  EXPECT_THAT(DistinctIds(std::vector<int32_t>{5, 5, 5}).unique, ElementsAre(5));
}

}  // namespace
}  // namespace embps::plan
