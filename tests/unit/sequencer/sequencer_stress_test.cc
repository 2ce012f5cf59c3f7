// 4 ranks, 64 flows of mixed kinds in flight at all times, 1,000 rounds: nothing may dead-lock, and every exchange must
// bring what the same flow sent.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "kernels/ref/ref_backend.h"
#include "server/collective/chunking.h"
#include "server/collective/in_process.h"
#include "server/env/worker_pool.h"
#include "server/sequencer/sequencer.h"
#include "tests/support/deferred_backend.h"
#include "tests/support/rank_threads.h"

namespace embps {
namespace {

constexpr int kRanks = 4;
constexpr int kInFlight = 64;
constexpr int kRounds = 1000;
constexpr int kSubmitters = 4;

// Kills the program when `progress` stands still: a dead-lock could not be reported otherwise.
class Watchdog {
 public:
  explicit Watchdog(const std::atomic<uint64_t>& progress) : thread_([this, &progress] { Watch(progress); }) {}
  ~Watchdog() {
    {
      MutexLock lock(&mu_);
      over_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

 private:
  void Watch(const std::atomic<uint64_t>& progress) {
    MutexLock lock(&mu_);
    while (!over_) {
      const uint64_t before = progress.load();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!over_ && changed_.WaitUntil(&mu_, deadline)) {
      }
      if (over_ || progress.load() != before) continue;
      std::fprintf(stderr, "no flow finished for 60 s, after %llu\n", static_cast<unsigned long long>(before));
      std::abort();
    }
  }

  Mutex mu_;
  CondVar changed_;
  bool over_ = false;
  std::thread thread_;
};

// What the flows share and what they report.
struct Node {
  const testing::Collectives& ranks;
  kernels::ParallelFor& parallel_for;
  std::atomic<uint64_t> finished{0};
  std::atomic<int> wrong{0};
  std::atomic<int> in_flight{0};
};

// One flow: its kind decides which collectives it makes, its ticket what it sends. Asynchronous like a real one: it is
// over when every rank's stream has completed.
class MixedFlow final : public Flow, public std::enable_shared_from_this<MixedFlow> {
 public:
  MixedFlow(Node& node, int kind) : node_(node), kind_(kind) {}

  void RunRank(const LaneContext& lane) override {
    Collective& collective = *node_.ranks[static_cast<size_t>(lane.rank)];
    PerRank& mine = per_rank_[lane.rank];
    for (int step = 0; step <= kind_ % 3; ++step) {
      lane.stream->Enqueue([this, &mine, ticket = lane.ticket, rank = lane.rank, step] {
        node_.parallel_for.Run(kRanks, [&](int64_t peer) {
          mine.sent[peer] = static_cast<int64_t>(ticket) * 100 + rank * 10 + step;
          mine.part[peer] = static_cast<float>((ticket + static_cast<uint64_t>(step)) % 1000);
        });
        return absl::OkStatus();
      });
      EnqueueCollective(collective, mine, *lane.stream);
      lane.stream->Enqueue([this, &mine, ticket = lane.ticket, step] {
        Check(mine, ticket, step);
        return absl::OkStatus();
      });
    }
    lane.stream->OnComplete([self = shared_from_this()](absl::Status status) { self->RankDone(status); });
  }

 private:
  struct PerRank {
    int64_t sent[kRanks] = {};
    int64_t received[kRanks] = {};
    float part[kRanks] = {};
    float sum = 0;
  };

  void EnqueueCollective(Collective& collective, PerRank& mine, kernels::Stream& stream) {
    std::vector<SendTransfer> sends;
    std::vector<RecvTransfer> recvs;
    std::vector<const float*> parts;
    for (int peer = 0; peer < kRanks; ++peer) {
      sends.push_back({peer, &mine.sent[peer], 8});
      recvs.push_back({peer, &mine.received[peer], 8});
      parts.push_back(&mine.part[peer]);
    }
    switch (kind_ % 4) {
      case 0:
        collective.AllToAll(sends, recvs, stream);
        break;
      case 1:
        collective.AllGather(&mine.sent[0], 8, recvs, stream);
        break;
      case 2:
        collective.ReduceScatter(parts, std::vector<int64_t>(kRanks, 1), &mine.sum, stream);
        break;
      default:
        break;  // a flow without exchanges
    }
  }

  void Check(const PerRank& mine, uint64_t ticket, int step) {
    if (kind_ % 4 == 3) return;
    bool right = true;
    if (kind_ % 4 == 2) {
      right = mine.sum == static_cast<float>(kRanks * ((ticket + static_cast<uint64_t>(step)) % 1000));
    } else {
      for (int peer = 0; peer < kRanks; ++peer) {
        right &= mine.received[peer] == static_cast<int64_t>(ticket) * 100 + peer * 10 + step;
      }
    }
    if (!right) node_.wrong.fetch_add(1);
  }

  void RankDone(const absl::Status& status) {
    if (!status.ok()) node_.wrong.fetch_add(1);
    if (ranks_done_.fetch_add(1) + 1 < kRanks) return;
    node_.finished.fetch_add(1);
    node_.in_flight.fetch_sub(1);
    node_.in_flight.notify_all();
  }

  Node& node_;
  const int kind_;
  PerRank per_rank_[kRanks];
  std::atomic<int> ranks_done_{0};
};

enum class Streams { kImmediate, kDeferred, kDeferredOnCaller };

class SequencerStressTest : public ::testing::TestWithParam<Streams> {};

TEST_P(SequencerStressTest, MixedFlowsOnFourRanksNeverDeadLock) {
  std::unique_ptr<kernels::Backend> backend = kernels::ref::NewRefBackend();
  if (GetParam() != Streams::kImmediate) {
    using enum testing::DeferredOptions::RunOn;
    backend =
        testing::NewDeferredBackend(std::move(backend), {GetParam() == Streams::kDeferred ? kOwnThread : kCaller});
  }
  testing::Collectives ranks = NewInProcessCollectives(kRanks, {.step_timeout_ms = 120'000});
  for (size_t r = 0; r < kRanks; ++r) ranks[r] = NewChunkingCollective(std::move(ranks[r]), 5);
  WorkerPool pool({.workers = 2});
  Node node{ranks, pool};
  {
    std::vector<std::unique_ptr<kernels::Stream>> streams;
    for (int r = 0; r < kRanks; ++r) streams.push_back(backend->NewStream());
    Sequencer sequencer(std::move(streams));
    Watchdog watchdog(node.finished);
    std::vector<std::jthread> submitters;
    for (int s = 0; s < kSubmitters; ++s) {
      submitters.emplace_back([&, s] {
        for (int i = s; i < kRounds; i += kSubmitters) {
          for (int now = node.in_flight.fetch_add(1); now >= kInFlight; now = node.in_flight.load()) {
            node.in_flight.wait(now);
          }
          sequencer.Submit(std::make_shared<MixedFlow>(node, i));
        }
      });
    }
    submitters.clear();
    for (int now = node.in_flight.load(); now > 0; now = node.in_flight.load()) node.in_flight.wait(now);
  }
  EXPECT_EQ(node.finished.load(), uint64_t{kRounds});
  EXPECT_EQ(node.wrong.load(), 0);
}

std::string StreamsName(const ::testing::TestParamInfo<Streams>& info) {
  switch (info.param) {
    case Streams::kImmediate:
      return "Immediate";
    case Streams::kDeferred:
      return "Deferred";
    case Streams::kDeferredOnCaller:
      return "DeferredOnCaller";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Streams, SequencerStressTest,
                         ::testing::Values(Streams::kImmediate, Streams::kDeferred, Streams::kDeferredOnCaller),
                         StreamsName);

}  // namespace
}  // namespace embps
