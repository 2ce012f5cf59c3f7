#include "server/env/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace embps {
namespace {

TEST(ExecutorTest, OneThreadRunsTasksInTheOrderPosted) {
  std::vector<int> ran;
  {
    Executor executor(1);
    for (int i = 0; i < 100; ++i) executor.Post([&ran, i] { ran.push_back(i); });
  }
  ASSERT_EQ(ran.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

TEST(ExecutorTest, DestructionRunsWhatWasPostedAndWhatThosePost) {
  std::atomic<int> ran{0};
  {
    Executor executor(3);
    for (int i = 0; i < 20; ++i) {
      executor.Post([&] {
        executor.Post([&] {
          executor.Post([&] { ran.fetch_add(1); });
          ran.fetch_add(1);
        });
        ran.fetch_add(1);
      });
    }
  }
  EXPECT_EQ(ran.load(), 60);
}

TEST(ExecutorTest, NeverRunsATaskOnThePostingThread) {
  Executor executor(2);
  std::promise<std::thread::id> ran_on;
  executor.Post([&] { ran_on.set_value(std::this_thread::get_id()); });
  EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
}

TEST(ExecutorTest, ATaskLetsGoOfWhatItHoldsWhenItHasRun) {
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watch = held;
  {
    Executor executor(1);
    executor.Post([held = std::move(held)] {});
    std::promise<bool> gone;
    executor.Post([&] { gone.set_value(watch.expired()); });
    EXPECT_TRUE(gone.get_future().get());
  }
}

TEST(ExecutorTest, AcceptsPostsFromManyThreadsAtOnce) {
  std::atomic<int> ran{0};
  {
    Executor executor(2);
    std::vector<std::jthread> posters;
    for (int t = 0; t < 4; ++t) {
      posters.emplace_back([&] {
        for (int i = 0; i < 500; ++i) executor.Post([&] { ran.fetch_add(1); });
      });
    }
  }
  EXPECT_EQ(ran.load(), 2000);
}

}  // namespace
}  // namespace embps
