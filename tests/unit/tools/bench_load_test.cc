#include "client/cpp/tools/bench_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace embps::tools {
namespace {

BenchArguments SmallBench() {
  BenchArguments bench;
  bench.rows = 1000;
  bench.batch_size = 200;
  bench.bag_size = 5;
  return bench;
}

TEST(RandomBatchTest, HasTheShapeAskedForAndLegalIds) {
  const KeyedJaggedTensor kjt = RandomBatch(SmallBench(), {"a", "b"}, 0);
  EXPECT_TRUE(kjt.Validate().ok());
  ASSERT_EQ(kjt.lengths.size(), 400u);
  ASSERT_EQ(kjt.values.size(), 2000u);
  const auto [low, high] = std::ranges::minmax(kjt.values);
  EXPECT_GE(low, 0);
  EXPECT_LT(high, 1000);
}

TEST(RandomBatchTest, IsAFunctionOfSeedAndStream) {
  BenchArguments bench = SmallBench();
  const auto values = RandomBatch(bench, {"a"}, 3).values;
  EXPECT_EQ(values, RandomBatch(bench, {"a"}, 3).values);
  EXPECT_NE(values, RandomBatch(bench, {"a"}, 4).values);
  bench.seed = 2;
  EXPECT_NE(values, RandomBatch(bench, {"a"}, 3).values);
}

TEST(RandomBatchTest, SkewPullsIdsDown) {
  const auto mean = [](double skew) {
    BenchArguments bench = SmallBench();
    bench.skew = skew;
    const auto values = RandomBatch(bench, {"a"}, 0).values;
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  EXPECT_NEAR(mean(1), 500, 50);  // R / (skew + 1)
  EXPECT_NEAR(mean(3), 250, 50);
}

TEST(RandomBatchTest, EmptyBagsAreLegal) {
  BenchArguments bench = SmallBench();
  bench.bag_size = 0;
  EXPECT_TRUE(RandomBatch(bench, {"a"}, 0).values.empty());
}

TEST(LatenciesTest, PercentilesAreTimesThatOccurred) {
  Latencies latencies;
  EXPECT_EQ(latencies.Percentile(0.5), 0);
  for (int us = 100; us >= 1; --us) latencies.Add(us);
  EXPECT_EQ(latencies.Percentile(0.5), 50);
  EXPECT_EQ(latencies.Percentile(0.99), 99);
  EXPECT_EQ(latencies.Percentile(1.0), 100);
  Latencies more;
  more.Add(1000);
  latencies.Add(more);
  EXPECT_EQ(latencies.count(), 101);
  EXPECT_EQ(latencies.Percentile(1.0), 1000);
}

}  // namespace
}  // namespace embps::tools
