#include "proto/plan/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/base/error.h"

namespace embps::plan {
namespace {

TEST(ClusterTest, GlobalRanksAreNodeMajor) {
  const Cluster cluster{{2, 1, 3}};
  ASSERT_TRUE(cluster.Validate().ok());
  EXPECT_EQ(cluster.rank_count(), 6);
  const RankId expected[] = {{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}, {2, 2}};
  for (int q = 0; q < 6; ++q) {
    EXPECT_EQ(cluster.RankOf(q), expected[q]) << q;
    EXPECT_EQ(cluster.GlobalRank(expected[q]), q);
  }
  EXPECT_EQ(cluster.FirstRankOf(0), 0);
  EXPECT_EQ(cluster.FirstRankOf(2), 3);
  EXPECT_EQ(cluster.FirstRankOf(3), 6);
}

TEST(ClusterTest, ContainsOnlyItsRanks) {
  const Cluster cluster{{2, 1}};
  EXPECT_TRUE(cluster.Contains({0, 1}));
  EXPECT_TRUE(cluster.Contains({1, 0}));
  EXPECT_FALSE(cluster.Contains({1, 1}));
  EXPECT_FALSE(cluster.Contains({2, 0}));
  EXPECT_FALSE(cluster.Contains({-1, 0}));
  EXPECT_FALSE(cluster.Contains({0, -1}));
}

TEST(ClusterTest, RefusesNoNodesNoRanksAndTooMany) {
  EXPECT_EQ(ReasonOf(Cluster{}.Validate()), Reason::kMalformed);
  EXPECT_THAT((Cluster{{1, 0}}.Validate().message()), testing::HasSubstr("node 1 has 0 ranks"));
  EXPECT_TRUE(Cluster{{kMaxRanks}}.Validate().ok());
  EXPECT_THAT((Cluster{{kMaxRanks, 1}}.Validate().message()), testing::HasSubstr("4097 ranks, at most 4096"));
}

}  // namespace
}  // namespace embps::plan
