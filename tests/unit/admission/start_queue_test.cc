#include "server/admission/start_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace embps {
namespace {

using std::chrono::milliseconds;
using Slot = StartQueue::Slot;

class StartQueueTest : public testing::Test {
 protected:
  PostFunction post() {
    return [this](absl::AnyInvocable<void() &&> task) { posted_.push_back(std::move(task)); };
  }
  void RunPosted() {
    std::vector<absl::AnyInvocable<void() &&>> tasks;
    tasks.swap(posted_);
    for (auto& task : tasks) std::move(task)();
  }
  Clock::TimePoint In(milliseconds time) const { return clock_.Now() + time; }
  StartQueue::Start Note(int who) {
    return [this, who](Slot slot) {
      (slot != nullptr ? started_ : expired_).push_back(who);
      slots_.push_back(std::move(slot));
    };
  }

  FakeClock clock_;
  std::vector<absl::AnyInvocable<void() &&>> posted_;
  std::vector<int> started_, expired_;
  std::vector<Slot> slots_;
};

TEST_F(StartQueueTest, CallsStartAtOnceWhileThereIsRoom) {
  StartQueue queue(2, 8, clock_, post());
  for (int i = 0; i < 3; ++i) {
    const auto entered = queue.Enter(Clock::TimePoint::max(), Note(i));
    EXPECT_TRUE(entered.accepted);
    EXPECT_EQ(entered.waiter != 0, i == 2);
  }
  EXPECT_EQ(started_, (std::vector<int>{0, 1}));
  EXPECT_EQ(queue.running_count(), 2);
  EXPECT_EQ(queue.waiting_count(), 1);
  slots_[0].reset();
  EXPECT_EQ(started_.size(), 2u) << "nothing starts inside a release";
  RunPosted();
  EXPECT_EQ(started_, (std::vector<int>{0, 1, 2}));
  slots_.clear();
  EXPECT_EQ(queue.running_count(), 0);
}

TEST_F(StartQueueTest, F12_CallsWhoseDeadlinePassedInTheLineAreDroppedBeforeTheyStart) {
  StartQueue queue(1, 1000, clock_, post());
  queue.Enter(Clock::TimePoint::max(), Note(0));
  for (int i = 1; i <= 100; ++i) queue.Enter(In(milliseconds(i)), Note(i));
  clock_.Advance(milliseconds(99));
  slots_[0].reset();
  RunPosted();
  EXPECT_EQ(expired_.size(), 99u);
  EXPECT_EQ(started_, (std::vector<int>{0, 100}));
  EXPECT_EQ(queue.running_count(), 1);
  slots_.clear();
}

TEST_F(StartQueueTest, ADeadlineInThePastNeverStarts) {
  StartQueue queue(1, 1, clock_, post());
  EXPECT_TRUE(queue.Enter(clock_.Now(), Note(7)).accepted);
  EXPECT_EQ(expired_, (std::vector<int>{7}));
  EXPECT_EQ(queue.running_count(), 0);
}

TEST_F(StartQueueTest, AFullLineRefuses) {
  StartQueue queue(1, 1, clock_, post());
  queue.Enter(Clock::TimePoint::max(), Note(0));
  EXPECT_TRUE(queue.Enter(Clock::TimePoint::max(), Note(1)).accepted);
  EXPECT_FALSE(queue.Enter(Clock::TimePoint::max(), Note(2)).accepted);
  slots_[0].reset();
  RunPosted();
  EXPECT_EQ(started_, (std::vector<int>{0, 1}));
  slots_.clear();
}

TEST_F(StartQueueTest, ACallThatLeavesIsNotStarted) {
  StartQueue queue(1, 8, clock_, post());
  queue.Enter(Clock::TimePoint::max(), Note(0));
  const uint64_t leaver = queue.Enter(Clock::TimePoint::max(), Note(1)).waiter;
  queue.Enter(Clock::TimePoint::max(), Note(2));
  EXPECT_TRUE(queue.Leave(leaver));
  EXPECT_FALSE(queue.Leave(leaver));
  EXPECT_FALSE(queue.Leave(0));
  slots_[0].reset();
  RunPosted();
  EXPECT_EQ(started_, (std::vector<int>{0, 2}));
  EXPECT_TRUE(expired_.empty());
  slots_.clear();
}

}  // namespace
}  // namespace embps
