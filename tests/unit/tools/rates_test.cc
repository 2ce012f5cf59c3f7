#include "client/cpp/tools/rates.h"

#include <gtest/gtest.h>

namespace embps::tools {
namespace {

NodeStats Reading(int node, uint64_t factor) {
  NodeStats stats;
  stats.node = node;
  stats.uptime_ms = 1000 * factor;
  stats.version = 10 * factor;
  stats.budget_used_bytes = 5;
  stats.sessions_open = 2;
  CallStats call;
  call.method = "Lookup";
  call.ok = 100 * factor;
  call.failed = 4 * factor;
  stats.calls = {call};
  TableStats table;
  table.table_namespace = "default";
  table.name = "t";
  table.table_uid = 7;
  table.lookups = 100 * factor;
  table.pushes = 10 * factor;
  table.ids_looked_up = 5000 * factor;
  table.rows_updated = 300 * factor;
  stats.tables = {table};
  return stats;
}

TEST(RatesTest, AreDifferencesPerSecond) {
  const auto rates = RatesBetween({Reading(0, 1)}, {Reading(0, 3)}, 2.0);
  ASSERT_EQ(rates.size(), 1u);
  EXPECT_EQ(rates[0].calls, 104);
  EXPECT_EQ(rates[0].failed_calls, 4);
  EXPECT_EQ(rates[0].pushes, 10);
  EXPECT_EQ(rates[0].ids, 5000);
  EXPECT_EQ(rates[0].rows_updated, 300);
  EXPECT_EQ(rates[0].sessions_open, 2u);
  ASSERT_EQ(rates[0].tables.size(), 1u);
  EXPECT_EQ(rates[0].tables[0].name, "default/t");
  EXPECT_EQ(rates[0].tables[0].lookups, 100);
}

TEST(RatesTest, ARestartedNodeHasNoNegativeRates) {
  const auto rates = RatesBetween({Reading(0, 5)}, {Reading(0, 1)}, 1.0);
  EXPECT_EQ(rates[0].calls, 0);
  EXPECT_EQ(rates[0].pushes, 0);
}

TEST(RatesTest, NodesAreMatchedByIndexAndSilentOnesHaveNone) {
  NodeStats silent;
  silent.node = 1;
  silent.status = absl::UnavailableError("gone");
  const auto rates = RatesBetween({Reading(0, 1), silent}, {silent, Reading(0, 2)}, 1.0);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_FALSE(rates[0].status.ok());
  EXPECT_EQ(rates[0].calls, 0);
  EXPECT_EQ(rates[1].calls, 104);
  // Back again: nothing to compare with yet.
  EXPECT_EQ(RatesBetween({silent}, {Reading(1, 9)}, 1.0)[0].calls, 0);
  EXPECT_EQ(RatesBetween({}, {Reading(1, 9)}, 1.0)[0].calls, 0);
}

TEST(RatesTest, ANewTableCountsFromZero) {
  NodeStats before = Reading(0, 1);
  before.tables.clear();
  const auto rates = RatesBetween({before}, {Reading(0, 2)}, 1.0);
  ASSERT_EQ(rates[0].tables.size(), 1u);
  EXPECT_EQ(rates[0].tables[0].ids, 10000);
}

}  // namespace
}  // namespace embps::tools
