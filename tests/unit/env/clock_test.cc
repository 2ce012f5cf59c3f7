#include "server/env/clock.h"

#include <gtest/gtest.h>

#include <set>

#include "server/env/random_bytes.h"

namespace embps {
namespace {

TEST(ClockTest, RealTimeNeverGoesBack) {
  const auto first = Clock::Real().Now();
  EXPECT_LE(first, Clock::Real().Now());
}

TEST(ClockTest, FakeTimeMovesOnlyWhenTold) {
  FakeClock clock;
  const auto start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(std::chrono::milliseconds(1500));
  EXPECT_EQ(clock.Now() - start, std::chrono::milliseconds(1500));
}

TEST(RandomBytesTest, HasTheAskedLengthAndDiffers) {
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) {
    seen.insert(RandomBytes(16));
    EXPECT_NE(RandomNonzero64(), 0u);
  }
  EXPECT_EQ(seen.size(), 300u);
  EXPECT_EQ(seen.begin()->size(), 16u);
  EXPECT_TRUE(RandomBytes(0).empty());
}

}  // namespace
}  // namespace embps
