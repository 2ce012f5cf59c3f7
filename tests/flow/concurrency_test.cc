// Many flows at once: no dead-lock, no lost update, and a lookup sees a push wholly or not at all.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "server/flow/tables_flow.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// Counts answers; Wait returns when all have come.
class Outstanding {
 public:
  void Add() {
    MutexLock lock(&mu_);
    ++count_;
  }
  void Done() {
    MutexLock lock(&mu_);
    if (--count_ == 0) cv_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(&mu_);
    while (count_ > 0) cv_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar cv_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

class Concurrency : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static TestNodeOptions Options() {
    TestNodeOptions options;
    options.ranks_per_node = {std::get<0>(GetParam())};
    options.deferred = std::get<1>(GetParam());
    options.workers = 2;
    return options;
  }
};

// Each push adds one to every row of three tables; every lookup must find all of them equal to its version.
TEST_P(Concurrency, ALookupSeesExactlyThePushesBeforeIt) {
  TestNode node(Options());
  std::vector<v1::Table> tables;
  constexpr v1::ShardingType kTypes[] = {v1::SHARDING_TYPE_ROW_WISE, v1::SHARDING_TYPE_TABLE_WISE,
                                         v1::SHARDING_TYPE_DATA_PARALLEL};
  for (int i = 0; i < 3; ++i) {
    tables.push_back(*node.CreateTable(SmallSpec("t" + std::to_string(i), 4, 4), kTypes[i]));
  }
  BatchInput lookup;
  PushInput push;
  for (const v1::Table& table : tables) {
    lookup.features.push_back(Bags(table, {{0}, {1}, {2}, {3}}));
    push.batch.features.push_back(lookup.features.back());
    push.batch.features.back().grads.assign(16, -1.0f);
  }
  constexpr int kThreads = 4, kRounds = 40;
  Outstanding outstanding;
  std::atomic<int> failures{0};
  std::vector<std::vector<v1::PushGradHeader>> headers(kThreads);
  for (auto& mine : headers) {
    for (int i = 0; i < kRounds; ++i) {
      mine.push_back(node.PushHeader(push));
      mine.back().mutable_mutation()->set_first_incomplete(1);
    }
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        outstanding.Add();
        const auto flow = PushGradFlow::Begin(node.core(), headers[static_cast<size_t>(t)][static_cast<size_t>(i)],
                                              [&](const auto& pushed) {
                                                failures += !pushed.ok();
                                                outstanding.Done();
                                              });
        if (!flow.ok() || !node.Feed(**flow, push).ok()) {
          ++failures;
          outstanding.Done();
          continue;
        }
        (*flow)->Start();
        const auto out = node.Lookup(lookup);
        if (!out.ok()) {
          ++failures;
          continue;
        }
        for (const auto& rows : out->rows) {
          failures += rows != std::vector<float>(16, static_cast<float>(out->info.version));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  outstanding.Wait();
  EXPECT_EQ(failures, 0);
  const auto out = node.Lookup(lookup);
  EXPECT_EQ(out->info.version, static_cast<uint64_t>(kThreads * kRounds));
  EXPECT_EQ(out->rows[0], std::vector<float>(16, static_cast<float>(kThreads * kRounds)));
}

TEST_P(Concurrency, TablesComeAndGoWhileFlowsUseThem) {
  TestNode node(Options());
  std::atomic<bool> stop{false};
  std::thread churn([&] {
    for (int i = 0; i < 60; ++i) {
      const auto table = node.CreateTable(SmallSpec("t", 40, 4, 2.0f), v1::SHARDING_TYPE_ROW_WISE);
      EXPECT_TRUE(table.ok()) << table.status();
      v1::DeleteTableRequest drop;
      drop.set_name("t");
      EXPECT_TRUE(DeleteTable(node.core(), drop).ok());
    }
    stop = true;
  });
  int seen = 0;
  do {
    v1::GetTableRequest get;
    get.set_name("t");
    const auto found = GetTable(node.core(), get);
    if (!found.ok()) continue;
    BatchInput batch;
    batch.features = {Bags(found->table(), {{1, 39}})};
    const auto out = node.Lookup(batch);
    if (!out.ok()) continue;  // dropped meanwhile
    EXPECT_EQ(out->rows[0], std::vector<float>(4, 4.0f));
    ++seen;
  } while (!stop);
  churn.join();
  SUCCEED() << seen;
}

INSTANTIATE_TEST_SUITE_P(Nodes, Concurrency, ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Bool()));

// 4 ranks, 64 mixed flows in flight, round after round; a watchdog would find a dead-lock as a time-out of this test.
TEST(DeadLock, SixtyFourMixedFlowsOnFourRanksAlwaysFinish) {
  TestNodeOptions options;
  options.ranks_per_node = {4};
  options.workers = 2;
  TestNode node(options);
  std::vector<v1::Table> tables;
  constexpr v1::ShardingType kTypes[] = {v1::SHARDING_TYPE_ROW_WISE, v1::SHARDING_TYPE_TABLE_WISE,
                                         v1::SHARDING_TYPE_COLUMN_WISE, v1::SHARDING_TYPE_DATA_PARALLEL};
  for (int i = 0; i < 4; ++i) {
    tables.push_back(*node.CreateTable(SmallSpec("t" + std::to_string(i), 20, 16), kTypes[i]));
  }
  std::mt19937_64 engine(11);
  const int rounds = kSanitized ? 60 : 1000;
  std::atomic<int> failures{0};
  for (int round = 0; round < rounds; ++round) {
    Outstanding outstanding;
    std::vector<std::shared_ptr<LookupFlow>> lookups;
    for (int i = 0; i < 64; ++i) {
      BatchInput batch;
      batch.features = {Bags(tables[engine() % 4], {{static_cast<int64_t>(engine() % 20), 3}, {}}),
                        Bags(tables[engine() % 4], {{static_cast<int64_t>(engine() % 20)}}, v1::POOLING_NONE)};
      outstanding.Add();
      if (i % 2 == 0) {
        const auto flow = LookupFlow::Begin(node.core(), node.LookupHeader(batch));
        ASSERT_TRUE(flow.ok() && node.Feed(**flow, batch).ok());
        lookups.push_back(*flow);
        (*flow)->Start([](int) {},
                       [&](const absl::Status& status) {
                         failures += !status.ok();
                         outstanding.Done();
                       });
      } else {
        PushInput push;
        push.batch = batch;
        push.batch.features[0].grads.assign(32, 1.0f);
        push.batch.features[1].grads.assign(16, 1.0f);
        const auto flow =
            PushGradFlow::Begin(node.core(), node.PushHeader(push), [&](const absl::StatusOr<v1::PushGradResponse>& r) {
              failures += !r.ok();
              outstanding.Done();
            });
        ASSERT_TRUE(flow.ok() && node.Feed(**flow, push).ok());
        (*flow)->Start();
      }
    }
    outstanding.Wait();
  }
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace embps::testing
