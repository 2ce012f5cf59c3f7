#include "server/stats/stats.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace embps {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(LatencyHistogramTest, EmptyHasNoQuantile) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.QuantileMicros(0.5), 0);
}

TEST(LatencyHistogramTest, QuantileIsNeverBelowAndAtMostAnEighthAbove) {
  for (int64_t nanos = 1; nanos < int64_t{1} << 40; nanos = nanos * 9 / 7 + 1) {
    LatencyHistogram histogram;
    histogram.Record(nanoseconds(nanos));
    const double micros = histogram.QuantileMicros(0.5);
    EXPECT_GE(micros * 1000, static_cast<double>(nanos));
    EXPECT_LE(micros * 1000, static_cast<double>(nanos) * 1.125 + 1) << nanos;
  }
}

TEST(LatencyHistogramTest, QuantilesSplitTheValuesByRank) {
  LatencyHistogram histogram;
  for (int i = 0; i < 98; ++i) histogram.Record(microseconds(100));
  histogram.Record(microseconds(5000));
  histogram.Record(microseconds(70000));
  EXPECT_EQ(histogram.count(), 100u);
  EXPECT_NEAR(histogram.QuantileMicros(0.5), 100, 13);
  EXPECT_NEAR(histogram.QuantileMicros(0.98), 100, 13);
  EXPECT_NEAR(histogram.QuantileMicros(0.99), 5000, 630);
  EXPECT_NEAR(histogram.QuantileMicros(1.0), 70000, 8800);
}

TEST(LatencyHistogramTest, ExtremesAreKeptInTheEndBuckets) {
  LatencyHistogram histogram;
  histogram.Record(nanoseconds(-5));
  histogram.Record(std::chrono::hours(1000));
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_LT(histogram.QuantileMicros(0.5), 0.01);
  EXPECT_NEAR(histogram.QuantileMicros(1.0), static_cast<double>(int64_t{1} << 42) / 1000, 1);
}

TEST(StatsTest, CallsAppearByMethodOnceTheyHappened) {
  Stats stats;
  stats.call("Unused");
  CallCounters& push = stats.call("PushGrad");
  EXPECT_EQ(&push, &stats.call("PushGrad"));
  stats.call("Lookup").Record(CallOutcome::kOk, microseconds(10));
  push.Record(CallOutcome::kFailed, microseconds(10));
  push.Record(CallOutcome::kExpiredBeforeStart, microseconds(1'000'000));
  const StatsSnapshot snapshot = stats.Snapshot();
  ASSERT_EQ(snapshot.calls.size(), 2u);
  EXPECT_EQ(snapshot.calls[0].method, "Lookup");
  EXPECT_EQ(snapshot.calls[0].ok, 1u);
  EXPECT_EQ(snapshot.calls[1].method, "PushGrad");
  EXPECT_EQ(snapshot.calls[1].failed, 1u);
  EXPECT_EQ(snapshot.calls[1].expired_before_start, 1u);
  EXPECT_LT(snapshot.calls[1].p99_us, 20);  // a call that never started has no latency
}

TEST(StatsTest, TablesAppearUntilRemovedAndCountersOutliveThem) {
  Stats stats;
  auto b = stats.AddTable("default", "b", 1, 2);
  auto a = stats.AddTable("default", "a", 2, 2);
  b->lookups.Add(3);
  b->AddIdsServed(1, 40);
  b->AddIdsServed(1, 2);
  StatsSnapshot snapshot = stats.Snapshot();
  ASSERT_EQ(snapshot.tables.size(), 2u);
  EXPECT_EQ(snapshot.tables[0].name, "a");
  EXPECT_EQ(snapshot.tables[1].lookups, 3u);
  EXPECT_EQ(snapshot.tables[1].ids_per_rank, (std::vector<uint64_t>{0, 42}));
  stats.RemoveTable(1);
  stats.RemoveTable(99);
  b->pushes.Add(1);
  snapshot = stats.Snapshot();
  ASSERT_EQ(snapshot.tables.size(), 1u);
  EXPECT_EQ(snapshot.tables[0].table_uid, 2u);
}

TEST(StatsTest, CountsFromManyThreadsAreExact) {
  Stats stats;
  auto table = stats.AddTable("default", "t", 1, 4);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < 1000; ++i) {
        table->AddIdsServed(rank, 2);
        table->ids_looked_up.Add(2);
        stats.call("Lookup").Record(CallOutcome::kOk, microseconds(i));
        if (i % 100 == 0) stats.Snapshot();
      }
    });
  }
  threads.clear();
  const StatsSnapshot snapshot = stats.Snapshot();
  EXPECT_EQ(snapshot.tables[0].ids_looked_up, 8000u);
  EXPECT_EQ(snapshot.tables[0].ids_per_rank, (std::vector<uint64_t>{2000, 2000, 2000, 2000}));
  EXPECT_EQ(snapshot.calls[0].ok, 4000u);
}

}  // namespace
}  // namespace embps
