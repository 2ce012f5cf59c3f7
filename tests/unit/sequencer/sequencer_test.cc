#include "server/sequencer/sequencer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <thread>

#include "server/collective/in_process.h"
#include "tests/support/rank_threads.h"

namespace embps {
namespace {

std::vector<std::unique_ptr<kernels::Stream>> Streams(int count) {
  std::vector<std::unique_ptr<kernels::Stream>> streams;
  for (int r = 0; r < count; ++r) streams.push_back(testing::NewImmediateStream());
  return streams;
}

class FunctionFlow final : public Flow {
 public:
  using Body = std::function<void(const LaneContext&)>;
  explicit FunctionFlow(Body body, std::atomic<int>* alive = nullptr) : body_(std::move(body)), alive_(alive) {
    if (alive_ != nullptr) alive_->fetch_add(1);
  }
  ~FunctionFlow() override {
    if (alive_ != nullptr) alive_->fetch_sub(1);
  }
  void RunRank(const LaneContext& lane) override { body_(lane); }

 private:
  const Body body_;
  std::atomic<int>* const alive_;
};

std::shared_ptr<Flow> MakeFlow(FunctionFlow::Body body) { return std::make_shared<FunctionFlow>(std::move(body)); }

TEST(SequencerTest, EveryRankRunsConcurrentSubmissionsInTicketOrder) {
  constexpr int kRanks = 3, kSubmitters = 4, kEach = 250;
  std::vector<std::vector<uint64_t>> order(kRanks);
  std::vector<std::set<uint64_t>> tickets(kSubmitters);
  {
    Sequencer sequencer(Streams(kRanks));
    EXPECT_EQ(sequencer.rank_count(), kRanks);
    std::vector<std::jthread> submitters;
    for (int s = 0; s < kSubmitters; ++s) {
      submitters.emplace_back([&, s] {
        uint64_t last = 0;
        for (int i = 0; i < kEach; ++i) {
          const uint64_t ticket = sequencer.Submit(MakeFlow([&order](const LaneContext& lane) {
            order[static_cast<size_t>(lane.rank)].push_back(lane.ticket);  // by the lane's thread alone
          }));
          EXPECT_GT(ticket, last);
          last = ticket;
          tickets[static_cast<size_t>(s)].insert(ticket);
        }
      });
    }
    submitters.clear();
    EXPECT_EQ(sequencer.submitted_count(), uint64_t{kSubmitters * kEach});
  }
  std::set<uint64_t> all;
  for (const auto& some : tickets) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), static_cast<size_t>(kSubmitters * kEach));
  for (const auto& ran : order) {
    ASSERT_EQ(ran.size(), static_cast<size_t>(kSubmitters * kEach));
    for (size_t i = 0; i < ran.size(); ++i) ASSERT_EQ(ran[i], i + 1);
  }
}

TEST(SequencerTest, EachRankHasItsOwnThreadAndStream) {
  std::vector<std::thread::id> threads(2);
  std::vector<kernels::Stream*> lanes_streams(2), streams_given;
  {
    auto streams = Streams(2);
    for (const auto& stream : streams) streams_given.push_back(stream.get());
    Sequencer sequencer(std::move(streams));
    sequencer.Submit(MakeFlow([&](const LaneContext& lane) {
      threads[static_cast<size_t>(lane.rank)] = std::this_thread::get_id();
      lanes_streams[static_cast<size_t>(lane.rank)] = lane.stream;
    }));
  }
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
  EXPECT_EQ(lanes_streams, streams_given);
}

TEST(SequencerTest, DestructionRunsWhatWasSubmittedAndLetsGoOfIt) {
  std::atomic<int> parts{0}, alive{0};
  std::atomic<bool> go{false};
  {
    Sequencer sequencer(Streams(2));
    sequencer.Submit(MakeFlow([&](const LaneContext&) { go.wait(false); }));
    for (int i = 0; i < 50; ++i) {
      sequencer.Submit(std::make_shared<FunctionFlow>([&](const LaneContext&) { parts.fetch_add(1); }, &alive));
    }
    EXPECT_EQ(alive.load(), 50);
    EXPECT_EQ(sequencer.finished_count(), 0u);
    go.store(true);
    go.notify_all();
  }
  EXPECT_EQ(parts.load(), 100);
  EXPECT_EQ(alive.load(), 0);
}

TEST(SequencerTest, ALaneBlockedInACollectiveDoesNotBlockSubmit) {
  const auto ranks = NewInProcessCollectives(2, {.step_timeout_ms = 60'000});
  std::atomic<bool> go{false};
  std::atomic<int> met{0};
  Sequencer sequencer(Streams(2));
  sequencer.Submit(MakeFlow([&](const LaneContext& lane) {
    if (lane.rank == 1) go.wait(false);  // rank 0 waits for it in the collective
    ranks[static_cast<size_t>(lane.rank)]->AllToAll({}, {}, *lane.stream);
    met.fetch_add(1);
    met.notify_all();
  }));
  for (uint64_t i = 0; i < 200; ++i) EXPECT_EQ(sequencer.Submit(MakeFlow([](const LaneContext&) {})), i + 2);
  EXPECT_EQ(met.load(), 0);
  EXPECT_EQ(sequencer.submitted_count(), 201u);
  EXPECT_EQ(sequencer.finished_count(), 0u);
  go.store(true);
  go.notify_all();
  while (met.load() < 2) met.wait(met.load());
}

TEST(SequencerTest, ATicketIsFinishedOnceEveryRankHasReturned) {
  std::atomic<bool> go{false};
  std::atomic<int> rank_zero_runs{0};
  Sequencer sequencer(Streams(2));
  sequencer.Submit(MakeFlow([&](const LaneContext& lane) {
    if (lane.rank == 1) go.wait(false);
  }));
  sequencer.Submit(MakeFlow([&](const LaneContext& lane) {
    if (lane.rank != 0) return;
    rank_zero_runs.store(1);
    rank_zero_runs.notify_all();
  }));
  rank_zero_runs.wait(0);  // rank 0 is past the first ticket, rank 1 is not
  EXPECT_EQ(sequencer.finished_count(), 0u);
  go.store(true);
  go.notify_all();
  std::atomic<bool> last_ran{false};
  sequencer.Submit(MakeFlow([&](const LaneContext& lane) {
    if (lane.rank != 1) return;
    EXPECT_GE(sequencer.finished_count(), 1u);
    last_ran.store(true);
    last_ran.notify_all();
  }));
  last_ran.wait(false);
}

TEST(SequencerTest, APartMaySubmitAnotherFlow) {
  std::atomic<int> second{0};
  Sequencer sequencer(Streams(2));
  sequencer.Submit(MakeFlow([&](const LaneContext& lane) {
    if (lane.rank != 0) return;
    sequencer.Submit(MakeFlow([&](const LaneContext&) {
      second.fetch_add(1);
      second.notify_all();
    }));
  }));
  while (second.load() < 2) second.wait(second.load());
}

}  // namespace
}  // namespace embps
