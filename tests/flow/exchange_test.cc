// Who sends what to whom, and that failures of an exchange end calls without stopping the lanes.
#include <gtest/gtest.h>

#include "proto/base/error.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

BatchInput TwoBagsPerRank(const v1::Table& table) {
  BatchInput batch;
  // Rows 0 to 4 lie on rank 0, 5 to 9 on rank 1; home part 0 is bags 0 and 1.
  batch.features = {Bags(table, {{0, 9, 1}, {5}, {}, {2, 3}})};
  return batch;
}

// Bytes by (rank, peer) of each call, in the order of rank 0's calls and of rank 1's.
struct Traffic {
  Mutex mu;
  std::vector<std::vector<uint64_t>> calls[2] ABSL_GUARDED_BY(mu);
};

class ExchangeTest : public ::testing::Test {
 protected:
  ExchangeTest() : node_(Options()) {
    node_.set_collective_observer([this](const CollectiveCall& call) {
      MutexLock lock(&traffic_.mu);
      std::vector<uint64_t>& sent = traffic_.calls[call.rank].emplace_back();
      for (const SentCounts& counts : call.sent) sent.push_back(counts.bytes);
    });
  }
  static TestNodeOptions Options() {
    TestNodeOptions options;
    options.ranks_per_node = {2};
    return options;
  }
  std::vector<std::vector<uint64_t>> TakeCalls(int rank) {
    MutexLock lock(&traffic_.mu);
    return std::exchange(traffic_.calls[rank], {});
  }
  using Calls = std::vector<std::vector<uint64_t>>;
  Traffic traffic_;
  TestNode node_;
};

TEST_F(ExchangeTest, RowWiseLookupsSendBucketsAndGetPartialSumsBack) {
  const v1::Table table = *node_.CreateTable(SmallSpec("t", 10, 4, 1.0f), v1::SHARDING_TYPE_ROW_WISE);
  TakeCalls(0);
  ASSERT_TRUE(node_.Lookup(TwoBagsPerRank(table)).ok());
  // Lengths of two bags, then ids of the bucket; back: two partial rows to each home.
  EXPECT_EQ(TakeCalls(0), (Calls{{2 * 8 + 2 * 8, 2 * 8 + 2 * 8}, {2 * 16, 2 * 16}}));
  EXPECT_EQ(TakeCalls(1), (Calls{{2 * 8 + 2 * 8, 2 * 8}, {2 * 16, 2 * 16}}));
}

TEST_F(ExchangeTest, WholeTablesGoToTheirOwnerAndRowsComeHome) {
  plan::PlacementOptions placement;
  placement.rank = 1;
  const v1::Table table = *node_.CreateTable(SmallSpec("t", 10, 4, 1.0f), v1::SHARDING_TYPE_TABLE_WISE, placement);
  ASSERT_TRUE(node_.Lookup(TwoBagsPerRank(table)).ok());
  EXPECT_EQ(TakeCalls(0), (Calls{{0, 2 * 8 + 4 * 8}, {0, 0}}));
  EXPECT_EQ(TakeCalls(1), (Calls{{0, 3 * 8 + 2 * 8}, {2 * 16, 2 * 16}}));
}

TEST_F(ExchangeTest, CopiesLookUpAtHomeAndUpdateEverywhere) {
  const v1::Table table = *node_.CreateTable(SmallSpec("t", 10, 4, 1.0f), v1::SHARDING_TYPE_DATA_PARALLEL);
  BatchInput batch = TwoBagsPerRank(table);
  ASSERT_TRUE(node_.Lookup(batch).ok());
  EXPECT_EQ(TakeCalls(0), (Calls{{0, 0}, {0, 0}}));
  batch.features[0].grads.assign(16, 1.0f);
  ASSERT_TRUE(node_.Push(batch).ok());
  // Bounds, ids and gradient rows of two bags to both.
  EXPECT_EQ(TakeCalls(0), (Calls{{2 * 8 + 4 * 8 + 2 * 16, 2 * 8 + 4 * 8 + 2 * 16}}));
}

TEST_F(ExchangeTest, N5_ARankWithoutIdsTakesPartWithZeroBytes) {
  const v1::Table table = *node_.CreateTable(SmallSpec("t", 10, 4, 1.0f), v1::SHARDING_TYPE_ROW_WISE);
  BatchInput batch;
  batch.features = {Bags(table, {{7}})};  // one bag: home part 0 is empty
  TakeCalls(0);
  const auto out = node_.Lookup(batch);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], std::vector<float>(4, 1.0f));
  EXPECT_EQ(TakeCalls(0), (Calls{{0, 0}, {0, 16}}));
  EXPECT_EQ(TakeCalls(1), (Calls{{8, 8 + 8}, {0, 16}}));
}

}  // namespace
}  // namespace embps::testing
