#include "server/collective/counting.h"

#include <gtest/gtest.h>

#include "server/collective/chunking.h"
#include "server/collective/in_process.h"
#include "tests/support/rank_threads.h"

namespace embps {
namespace {

using testing::Collectives;
using testing::OnEveryRank;

void SendSome(Collective& collective, kernels::Stream& stream) {
  const int peer = 1 - collective.rank();
  const char sent[100] = {};
  static thread_local char received[300];
  const int64_t mine = collective.rank() == 0 ? 10 : 20;
  collective.AllToAll({{peer, sent, mine}, {peer, sent, 0}, {collective.rank(), sent, 3}},
                      {{peer, received, 30 - mine}, {peer, received, 0}, {collective.rank(), received + 100, 3}},
                      stream);
  const float part[5] = {};
  float out[5];
  collective.ReduceScatter({part, part}, {5, 2}, out, stream);
  collective.AllGather(sent, mine, {{0, received, 10}, {1, received + 100, 20}}, stream);
}

TEST(CountingTest, CountsByOperationRankAndPeer) {
  CollectiveCounters counters(2);
  Collectives ranks = NewInProcessCollectives(2);
  std::vector<std::vector<CollectiveCall>> seen(2);
  for (size_t r = 0; r < 2; ++r) {
    ranks[r] = NewCountingCollective(std::move(ranks[r]), &counters,
                                     [&seen, r](const CollectiveCall& call) { seen[r].push_back(call); });
  }
  for (const absl::Status& status : OnEveryRank(ranks, SendSome)) EXPECT_TRUE(status.ok()) << status.ToString();

  using enum CollectiveOperation;
  EXPECT_EQ(counters.sent(kAllToAll, 0, 1), (SentCounts{1, 2, 10, 0}));
  EXPECT_EQ(counters.sent(kAllToAll, 1, 0), (SentCounts{1, 2, 20, 0}));
  EXPECT_EQ(counters.sent(kAllToAll, 1, 1), (SentCounts{1, 1, 3, 0}));
  EXPECT_EQ(counters.sent(kReduceScatter, 1, 0), (SentCounts{1, 1, 20, 5}));
  EXPECT_EQ(counters.sent(kReduceScatter, 0, 1), (SentCounts{1, 1, 8, 2}));
  EXPECT_EQ(counters.sent(kAllGather, 1, 0), (SentCounts{1, 1, 20, 0}));
  EXPECT_EQ(counters.total_bytes(), 10u + 20 + 20 + 8 + 10 + 20);
  EXPECT_EQ(counters.total_bytes(/*between_ranks=*/false), 88u + 6 + 28 + 30);

  for (int r = 0; r < 2; ++r) {
    const auto& calls = seen[static_cast<size_t>(r)];
    ASSERT_EQ(calls.size(), 3u);
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(calls[i].rank, r);
      EXPECT_EQ(calls[i].index, i);
      EXPECT_EQ(calls[i].operation, static_cast<CollectiveOperation>(i));
    }
    EXPECT_EQ(calls[0].sent[static_cast<size_t>(1 - r)].bytes, r == 0 ? 10u : 20u);
  }
}

TEST(CountingTest, BelowChunkingItSeesPiecesOfAtMostTheChunk) {
  CollectiveCounters counters(2);
  Collectives ranks = NewInProcessCollectives(2);
  for (auto& rank : ranks) {
    rank = NewChunkingCollective(NewCountingCollective(std::move(rank), &counters), 8);
  }
  for (const absl::Status& status : OnEveryRank(ranks, SendSome)) EXPECT_TRUE(status.ok()) << status.ToString();

  using enum CollectiveOperation;
  // AllToAll: 20 bytes in 3 pieces, the empty transfer in 1. AllGather, as sends to everybody: 20 bytes in 3.
  EXPECT_EQ(counters.sent(kAllToAll, 1, 0), (SentCounts{2, 7, 40, 0}));
  // 5 floats, 2 at a time: 3 calls, of which the last has nothing for rank 1.
  EXPECT_EQ(counters.sent(kReduceScatter, 0, 0), (SentCounts{3, 3, 20, 5}));
  EXPECT_EQ(counters.sent(kReduceScatter, 0, 1), (SentCounts{3, 3, 8, 2}));
}

}  // namespace
}  // namespace embps
