#include "server/admission/byte_budget.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "server/env/executor.h"

namespace embps {
namespace {

using Grant = ByteBudget::Grant;

// Keeps what was posted until told to run it.
class ManualPost {
 public:
  PostFunction function() {
    return [this](absl::AnyInvocable<void() &&> task) { tasks_.push_back(std::move(task)); };
  }
  size_t size() const { return tasks_.size(); }
  void RunAll() {
    while (!tasks_.empty()) {
      absl::AnyInvocable<void()&&> task = std::move(tasks_.front());
      tasks_.erase(tasks_.begin());
      std::move(task)();
    }
  }

 private:
  std::vector<absl::AnyInvocable<void() &&>> tasks_;
};

TEST(ByteBudgetTest, GrantsUpToTheLimitAndTakesBackWithTheLastCopy) {
  ManualPost post;
  ByteBudget budget(100, 4, post.function());
  Grant a = budget.TryAcquire(60);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(budget.TryAcquire(41), nullptr);
  Grant b = budget.TryAcquire(40);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(budget.used_bytes(), 100);
  Grant copy = a;
  a.reset();
  EXPECT_EQ(budget.used_bytes(), 100);
  copy.reset();
  EXPECT_EQ(budget.used_bytes(), 40);
  EXPECT_EQ(budget.peak_bytes(), 100);
  EXPECT_EQ(budget.refused_count(), 1u);
  EXPECT_NE(budget.TryAcquire(0), nullptr);
}

TEST(ByteBudgetTest, WaitersAreServedInOrderOfArrival) {
  ManualPost post;
  ByteBudget budget(100, 4, post.function());
  Grant first = budget.TryAcquire(80);
  std::vector<int> served;
  std::vector<Grant> grants;
  const auto wait = [&](int who, int64_t bytes) {
    return budget.AcquireOrWait(bytes, [&, who](Grant grant) {
      EXPECT_NE(grant, nullptr);
      served.push_back(who);
      grants.push_back(std::move(grant));
    });
  };
  EXPECT_NE(wait(1, 90), 0u);
  EXPECT_NE(wait(2, 5), 0u) << "would fit, but stands behind a larger one";
  EXPECT_EQ(budget.TryAcquire(5), nullptr) << "nobody overtakes";
  first.reset();
  EXPECT_TRUE(served.empty()) << "nothing runs inside a release";
  post.RunAll();
  EXPECT_EQ(served, (std::vector<int>{1, 2}));
  EXPECT_EQ(budget.used_bytes(), 95);
  EXPECT_EQ(wait(3, 5), 0u) << "fits at once";
  EXPECT_EQ(served.back(), 3);
}

TEST(ByteBudgetTest, WhatCanNeverFitOrFindsTheLineFullIsRefusedAtOnce) {
  ManualPost post;
  ByteBudget budget(100, 1, post.function());
  std::optional<bool> admitted;
  const auto note = [&](Grant grant) { admitted = grant != nullptr; };
  EXPECT_EQ(budget.AcquireOrWait(101, note), 0u);
  EXPECT_EQ(admitted, false);
  Grant all = budget.TryAcquire(100);
  Grant later;
  EXPECT_NE(budget.AcquireOrWait(10, [&](Grant grant) { later = std::move(grant); }), 0u);
  admitted.reset();
  EXPECT_EQ(budget.AcquireOrWait(10, note), 0u);
  EXPECT_EQ(admitted, false);
  EXPECT_EQ(budget.refused_count(), 2u);
  all.reset();
  post.RunAll();
  EXPECT_NE(later, nullptr);
}

TEST(ByteBudgetTest, AWaiterThatLeavesIsNotCalledAndLetsOthersPass) {
  ManualPost post;
  ByteBudget budget(100, 4, post.function());
  Grant some = budget.TryAcquire(50);
  Grant small;
  const uint64_t large = budget.AcquireOrWait(90, [](Grant) { FAIL() << "left"; });
  budget.AcquireOrWait(40, [&](Grant grant) { small = std::move(grant); });
  EXPECT_TRUE(budget.Leave(large));
  EXPECT_FALSE(budget.Leave(large));
  EXPECT_FALSE(budget.Leave(0));
  post.RunAll();
  EXPECT_NE(small, nullptr);
  EXPECT_EQ(budget.used_bytes(), 90);
}

TEST(ByteBudgetTest, ManyThreadsNeverExceedTheLimit) {
  Executor executor(2);
  ByteBudget budget(1000, 1 << 20, [&](auto task) { executor.Post(std::move(task)); });
  std::atomic<int> admitted{0};
  std::atomic<int64_t> held{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<uint32_t>(t));
        for (int i = 0; i < 500; ++i) {
          const int64_t bytes = static_cast<int64_t>(random() % 400);
          budget.AcquireOrWait(bytes, [&, bytes](Grant grant) {
            EXPECT_LE(held.fetch_add(bytes) + bytes, 1000);
            ++admitted;
            executor.Post([&held, bytes, grant = std::move(grant)] { held.fetch_sub(bytes); });
          });
        }
      });
    }
  }
  // Each admission is followed by another release until all have run.
  for (bool idle = false; !idle;) {
    std::this_thread::yield();
    idle = admitted == 2000 && budget.used_bytes() == 0;
  }
  EXPECT_LE(budget.peak_bytes(), 1000);
}

}  // namespace
}  // namespace embps
