// What the contract leaves to the implementation: waiting, leaving, and the texts of errors.
#include "server/collective/in_process.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "proto/base/error.h"
#include "tests/support/deferred_stream.h"
#include "tests/support/rank_threads.h"

namespace embps {
namespace {

using testing::Collectives;
using testing::Complete;
using testing::OnEveryRank;

// Long enough that nothing fails by it, short enough that a dead-lock ends the test.
constexpr InProcessCollectiveOptions kPatient = {.step_timeout_ms = 60'000};

void RingStep(Collective& collective, kernels::Stream& stream, const int* sent, int* received) {
  const int w = collective.world_size();
  collective.AllToAll({{(collective.rank() + 1) % w, sent, sizeof(int)}},
                      {{(collective.rank() + w - 1) % w, received, sizeof(int)}}, stream);
}

TEST(InProcessTest, ARankThatDoesNotComeIsPeerDownAtEveryRankAlsoAtTheLateOne) {
  const Collectives ranks = NewInProcessCollectives(3, {.step_timeout_ms = 30});
  std::atomic<int> gave_up{0};
  OnEveryRank(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const int sent = collective.rank();
    int received = -1;
    if (collective.rank() == 1) {
      while (gave_up.load() < 2) gave_up.wait(gave_up.load());
    }
    RingStep(collective, stream, &sent, &received);
    const absl::Status status = Complete(stream);
    EXPECT_EQ(ReasonOf(status), Reason::kPeerDown) << status.ToString();
    EXPECT_NE(status.message().find("rank 1"), absl::string_view::npos) << status.ToString();
    EXPECT_EQ(received, 0) << "what a failed exchange should have brought is zero";
    gave_up.fetch_add(1);
    gave_up.notify_all();
    // Once the late rank has caught up, the ranks are in step again.
    while (gave_up.load() < 3) gave_up.wait(gave_up.load());
  });
  const auto statuses = OnEveryRank(ranks, [&](Collective& collective, kernels::Stream& stream) {
    const int sent = collective.rank();
    int received = -1;
    RingStep(collective, stream, &sent, &received);
    EXPECT_TRUE(Complete(stream).ok());
    EXPECT_EQ(received, (collective.rank() + 2) % 3);
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(InProcessTest, ARankThatLeavesIsPeerDownWithoutWaiting) {
  Collectives ranks = NewInProcessCollectives(3, kPatient);
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&ranks, r] {
      kernels::ImmediateStream stream;
      const int sent = 0;
      int received = -1;
      for (int round = 0; round < 3; ++round) {
        RingStep(*ranks[r], stream, &sent, &received);
        const absl::Status status = Complete(stream);
        EXPECT_EQ(ReasonOf(status), Reason::kPeerDown) << status.ToString();
        EXPECT_NE(status.message().find("rank 2 left"), absl::string_view::npos) << status.ToString();
      }
    });
  }
  ranks[2].reset();
}

// What a rank enqueued before its object went is still met.
TEST(InProcessTest, WorkEnqueuedBeforeARankLeftStillRuns) {
  Collectives ranks = NewInProcessCollectives(2, kPatient);
  int received[2] = {-1, -1};
  const int sent[2] = {10, 11};
  std::vector<std::unique_ptr<kernels::Stream>> streams;
  for (size_t r = 0; r < 2; ++r) {
    streams.push_back(std::make_unique<testing::DeferredStream>(testing::NewImmediateStream(), true));
    RingStep(*ranks[r], *streams[r], &sent[r], &received[r]);
    ranks[r].reset();
  }
  std::jthread other([&] { EXPECT_TRUE(Complete(*streams[1]).ok()); });
  EXPECT_TRUE(Complete(*streams[0]).ok());
  other.join();
  EXPECT_EQ(received[0], 11);
  EXPECT_EQ(received[1], 10);
}

TEST(InProcessTest, RanksMeetWhenTheStreamsRunNotAtTheCall) {
  const Collectives ranks = NewInProcessCollectives(2, kPatient);
  std::vector<std::unique_ptr<kernels::Stream>> streams;
  int sent[2] = {0, 0};
  int received[2] = {-1, -1};
  // One thread makes both ranks' calls: it would wait for itself if a call were to wait.
  for (size_t r = 0; r < 2; ++r) {
    streams.push_back(std::make_unique<testing::DeferredStream>(testing::NewImmediateStream(), true));
    RingStep(*ranks[r], *streams[r], &sent[r], &received[r]);
  }
  sent[0] = 5;  // read when the stream runs
  sent[1] = 6;
  std::jthread other([&] { EXPECT_TRUE(Complete(*streams[1]).ok()); });
  EXPECT_TRUE(Complete(*streams[0]).ok());
  other.join();
  EXPECT_EQ(received[0], 6);
  EXPECT_EQ(received[1], 5);
}

TEST(InProcessTest, AMismatchNamesRankTransferAndBothSizes) {
  const Collectives ranks = NewInProcessCollectives(2, kPatient);
  const auto statuses = OnEveryRank(ranks, [](Collective& collective, kernels::Stream& stream) {
    const char sent[16] = {};
    char received[2][16];
    const int peer = 1 - collective.rank();
    collective.AllToAll({{peer, sent, 4}, {peer, sent, 12}},
                        {{peer, received[0], 4}, {peer, received[1], collective.rank() == 1 ? 16 : 12}}, stream);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, absl::InternalError("AllToAll: rank 1, transfer 1 from rank 0: expects 16 bytes, is sent 12"));
  }
}

TEST(InProcessTest, ReduceScatterCountsMustAgree) {
  const Collectives ranks = NewInProcessCollectives(2, kPatient);
  const auto statuses = OnEveryRank(ranks, [](Collective& collective, kernels::Stream& stream) {
    const float part[4] = {1, 2, 3, 4};
    float out[4] = {};
    const int64_t for_zero = collective.rank() == 0 ? 3 : 4;
    collective.ReduceScatter({part, part}, {for_zero, 2}, out, stream);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status,
              absl::InternalError("ReduceScatter: rank 0, transfer 0 from rank 1: expects 12 bytes, is sent 16"));
  }
}

// Longer than the pieces in which the sums are made.
TEST(InProcessTest, LongReductionsAreSummedInRankOrderEverywhere) {
  constexpr int64_t kCount = 5000;
  const Collectives ranks = NewInProcessCollectives(3, kPatient);
  const auto value = [](int rank, int64_t i) {
    return (rank == 1 ? -1e7f : 1e7f) + static_cast<float>(i % 97) * 0.37f;
  };
  const auto statuses = OnEveryRank(ranks, [&](Collective& collective, kernels::Stream& stream) {
    std::vector<float> part(kCount), out(kCount + 1, 9.0f);
    for (int64_t i = 0; i < kCount; ++i) part[static_cast<size_t>(i)] = value(collective.rank(), i);
    collective.ReduceScatter({part.data(), part.data(), part.data()}, {kCount, 1024, 1025}, out.data(), stream);
    ASSERT_TRUE(Complete(stream).ok());
    const int64_t counts[3] = {kCount, 1024, 1025};
    for (int64_t i = 0; i < counts[collective.rank()]; ++i) {
      ASSERT_EQ(out[static_cast<size_t>(i)], value(0, i) + value(1, i) + value(2, i)) << i;
    }
    EXPECT_EQ(out[static_cast<size_t>(counts[collective.rank()])], 9.0f);
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(InProcessTest, DifferentOperationsAtOnceAreInternal) {
  const Collectives ranks = NewInProcessCollectives(2, kPatient);
  const auto statuses = OnEveryRank(ranks, [](Collective& collective, kernels::Stream& stream) {
    if (collective.rank() == 0) {
      collective.AllToAll({}, {}, stream);
    } else {
      char received[2] = {};
      collective.AllGather("", 0, {{0, &received[0], 0}, {1, &received[1], 0}}, stream);
    }
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, absl::InternalError("collective: rank 0 calls AllToAll, rank 1 AllGather"));
  }
}

TEST(InProcessTest, OptionsMustHaveAPositiveTimeout) {
  EXPECT_TRUE(InProcessCollectiveOptions{}.Validate().ok());
  EXPECT_FALSE(InProcessCollectiveOptions{.step_timeout_ms = 0}.Validate().ok());
}

}  // namespace
}  // namespace embps
