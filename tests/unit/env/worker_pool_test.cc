#include "server/env/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "proto/base/mutex.h"

namespace embps {
namespace {

class WorkerPoolTest : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  WorkerPoolOptions options() const { return {.workers = std::get<0>(GetParam()), .spin_us = std::get<1>(GetParam())}; }
};

TEST_P(WorkerPoolTest, RunsEveryIndexOnceWhateverTheCount) {
  WorkerPool pool(options());
  EXPECT_EQ(pool.worker_count(), std::get<0>(GetParam()));
  for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> ran(static_cast<size_t>(count));
    pool.Run(count, [&](int64_t i) { ran[static_cast<size_t>(i)].fetch_add(1); });
    for (const auto& times : ran) EXPECT_EQ(times.load(), 1);
  }
}

TEST_P(WorkerPoolTest, WhatTheLoopWroteIsVisibleAfterRun) {
  WorkerPool pool(options());
  std::vector<int64_t> values(512);
  for (int round = 1; round <= 200; ++round) {
    pool.Run(512, [&](int64_t i) { values[static_cast<size_t>(i)] += i; });  // plain memory: no atomics
    if (round % 50 == 0) {
      for (int64_t i = 0; i < 512; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i * round);
    }
  }
}

TEST_P(WorkerPoolTest, LoopsOfSeveralLanesRunAtTheSameTime) {
  WorkerPool pool(options());
  constexpr int kLanes = 4;
  std::vector<int64_t> sums(kLanes);
  std::vector<std::jthread> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&, lane] {
      for (int round = 0; round < 300; ++round) {
        std::vector<int64_t> parts(17);
        pool.Run(17, [&](int64_t i) { parts[static_cast<size_t>(i)] = i + lane; });
        for (const int64_t part : parts) sums[static_cast<size_t>(lane)] += part;
      }
    });
  }
  lanes.clear();
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_EQ(sums[static_cast<size_t>(lane)], 300 * (136 + 17 * lane));
}

INSTANTIATE_TEST_SUITE_P(Workers, WorkerPoolTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 8), ::testing::Values(0, 20)));

// Each of the workers holds its first index until all of them have one: only possible with that many threads.
TEST(WorkerPoolThreadsTest, UsesAllWorkersTheCallerIncluded) {
  WorkerPool pool({.workers = 3});
  Mutex mu;
  CondVar changed;
  std::set<std::thread::id> threads;
  pool.Run(3, [&](int64_t) {
    MutexLock lock(&mu);
    threads.insert(std::this_thread::get_id());
    changed.NotifyAll();
    while (threads.size() < 3) changed.Wait(&mu);
  });
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 1u);
}

// A loop whose caller is blocked in its body must not stop another lane's loop.
TEST(WorkerPoolThreadsTest, ABlockedLoopDoesNotBlockAnotherLanes) {
  WorkerPool pool({.workers = 2});
  std::atomic<bool> release{false};
  std::atomic<int> inside{0};
  std::jthread blocked([&] {
    pool.Run(2, [&](int64_t) {
      inside.fetch_add(1);
      inside.notify_all();
      release.wait(false);
    });
  });
  while (inside.load() < 2) inside.wait(inside.load());
  int sum = 0;
  pool.Run(5, [&](int64_t i) { sum += static_cast<int>(i); });  // the caller alone: both threads are held
  EXPECT_EQ(sum, 10);
  release.store(true);
  release.notify_all();
}

TEST(WorkerPoolThreadsTest, ZeroWorkersMeansOnePerCore) {
  WorkerPool pool({.workers = 0});
  EXPECT_EQ(pool.worker_count(), std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace embps
