#include "client/cpp/mutation_queue.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/fake_scheduler.h"

namespace embps::client {
namespace {

using ::testing::ElementsAre;

TEST(MutationQueueTest, FirstOpenIsTheLowestThatIsNotSettled) {
  MutationQueue queue(1);
  EXPECT_EQ(queue.FirstOpen(9), 9u);
  EXPECT_EQ(queue.Open(), 1u);
  EXPECT_EQ(queue.Open(), 2u);
  EXPECT_EQ(queue.Open(), 3u);
  queue.Settle(2);
  EXPECT_EQ(queue.FirstOpen(3), 1u);
  queue.Settle(1);
  EXPECT_EQ(queue.FirstOpen(3), 3u);
  queue.Settle(1);
  queue.Settle(3);
  EXPECT_EQ(queue.FirstOpen(4), 4u);
}

TEST(MutationQueueTest, TurnsComeInTheOrderOfEnterOneByOne) {
  FakeScheduler scheduler;
  auto queue = std::make_shared<MutationQueue>(1);
  std::vector<int> turns;
  const TimePoint later = scheduler.Now() + std::chrono::hours(1);
  for (int i = 0; i < 3; ++i)
    queue->Enter(&scheduler, later, [&turns, i](bool in_time) { turns.push_back(in_time ? i : -i); });
  EXPECT_THAT(turns, ElementsAre(0));
  queue->Leave();
  EXPECT_THAT(turns, ElementsAre(0, 1));
  queue->Leave();
  queue->Leave();
  EXPECT_THAT(turns, ElementsAre(0, 1, 2));
  queue->Enter(&scheduler, later, [&turns](bool) { turns.push_back(3); });
  EXPECT_THAT(turns, ElementsAre(0, 1, 2, 3));
}

TEST(MutationQueueTest, SeveralMayBeInFlight) {
  FakeScheduler scheduler;
  auto queue = std::make_shared<MutationQueue>(2);
  int turns = 0;
  for (int i = 0; i < 3; ++i) {
    queue->Enter(&scheduler, scheduler.Now() + std::chrono::hours(1), [&](bool) { ++turns; });
  }
  EXPECT_EQ(turns, 2);
}

TEST(MutationQueueTest, AWaiterLeavesAtItsDeadline) {
  auto queue = std::make_shared<MutationQueue>(1);
  std::vector<bool> in_time;
  {
    FakeScheduler scheduler;
    queue->Enter(&scheduler, scheduler.Now() + std::chrono::hours(1), [](bool) {});
    // Due within the scheduler's jump, so it expires at once; the scheduler's end waits for it.
    queue->Enter(&scheduler, scheduler.Now() + std::chrono::seconds(1), [&](bool ok) { in_time.push_back(ok); });
  }
  EXPECT_THAT(in_time, ElementsAre(false));
  queue->Leave();  // nobody is left to get the turn
  EXPECT_THAT(in_time, ElementsAre(false));
}

}  // namespace
}  // namespace embps::client
