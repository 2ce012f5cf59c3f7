// Control flows of tables and the rows they hold.
#include <gtest/gtest.h>

#include "proto/base/error.h"
#include "proto/plan/table_layout.h"
#include "server/flow/rows_flow.h"
#include "server/flow/stats_flow.h"
#include "server/flow/tables_flow.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

v1::TableSpec UniformSpec(const std::string& name, int64_t rows, int32_t dim) {
  v1::TableSpec spec = SmallSpec(name, rows, dim);
  spec.clear_initializer();
  spec.mutable_initializer()->set_seed(3);
  return spec;
}

TEST(TablesFlow, S26_InitialRowsDoNotDependOnThePlacement) {
  TestNode one;
  TestNodeOptions options;
  options.ranks_per_node = {4};
  options.init_piece_bytes = 100;  // many pieces
  TestNode four(options);
  const auto whole = one.CreateTable(UniformSpec("t", 1000, 8), v1::SHARDING_TYPE_TABLE_WISE);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 1000; ++i) ids.push_back(i);
  const std::vector<float> expected = one.ReadRows(*whole, ids)->rows;
  const float bound = std::sqrt(1.0f / 1000);
  for (const float value : expected) ASSERT_LE(std::fabs(value), bound);
  int index = 0;
  for (const v1::ShardingType type : {v1::SHARDING_TYPE_ROW_WISE, v1::SHARDING_TYPE_TABLE_ROW_WISE,
                                      v1::SHARDING_TYPE_DATA_PARALLEL, v1::SHARDING_TYPE_TABLE_WISE}) {
    const auto table = four.CreateTable(UniformSpec("t", 1000, 8), type);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(four.ReadRows(*table, ids)->rows, expected) << index++;
    v1::DeleteTableRequest drop;
    drop.set_name("t");
    ASSERT_TRUE(DeleteTable(four.core(), drop).ok());
  }
}

TEST(TablesFlow, AFlowThatFindsATableSeesItsInitialRows) {
  TestNodeOptions options;
  options.init_piece_bytes = 1000;
  TestNode node(options);
  v1::CreateTablesRequest request;
  v1::NewTable& table = *request.add_tables();
  *table.mutable_spec() = SmallSpec("t", 10'000, 4, 1.5f);
  *table.mutable_placement() = *plan::MakePlacement(table.spec(), v1::SHARDING_TYPE_TABLE_WISE, {{1}});
  Answer<absl::StatusOr<v1::CreateTablesResponse>> created;
  CreateTables(node.core(), request, created.Callback());
  // Not waiting: its tickets come after those that write the rows.
  v1::GetTableRequest get;
  get.set_name("t");
  const auto found = GetTable(node.core(), get);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(node.ReadRows(found->table(), {0, 9999}, false)->rows, std::vector<float>(8, 1.5f));
  EXPECT_TRUE(created.Wait()->tables(0).created());
  EXPECT_FALSE(node.CreateTables(request)->tables(0).created());
}

TEST(TablesFlow, CreateListGetAndDelete) {
  TestNode node;
  EXPECT_EQ(ReasonOf(node.CreateTables({}).status()), Reason::kMalformed);
  ASSERT_TRUE(node.CreateTable(SmallSpec("b", 4, 4), v1::SHARDING_TYPE_TABLE_WISE).ok());
  ASSERT_TRUE(node.CreateTable(SmallSpec("a", 4, 4), v1::SHARDING_TYPE_TABLE_WISE).ok());
  const auto list = ListTables(node.core(), {});
  ASSERT_EQ(list->tables_size(), 2);
  EXPECT_EQ(list->tables(0).spec().name(), "a");
  EXPECT_EQ(list->tables(0).learning_rate(), 1.0f);
  v1::GetTableRequest get;
  get.set_name("missing");
  EXPECT_EQ(ReasonOf(GetTable(node.core(), get).status()), Reason::kTableNotFound);
  get.set_name("");
  EXPECT_EQ(ReasonOf(GetTable(node.core(), get).status()), Reason::kMalformed);
  v1::DeleteTableRequest drop;
  drop.set_name("a");
  drop.set_table_uid(12345);
  EXPECT_EQ(DeleteTable(node.core(), drop)->table_uid(), 0u);
  drop.set_table_uid(0);
  EXPECT_EQ(DeleteTable(node.core(), drop)->table_uid(), list->tables(0).table_uid());
  EXPECT_EQ(DeleteTable(node.core(), drop)->table_uid(), 0u);
}

TEST(TablesFlow, UpdateRefusesWhatIsNoRateAndNoStep) {
  TestNode node;
  const auto table = node.CreateTable(SmallSpec("t", 4, 4), v1::SHARDING_TYPE_TABLE_WISE);
  v1::UpdateTableRequest update;
  update.set_table_uid(table->table_uid());
  for (const float rate : {-1.0f, std::numeric_limits<float>::infinity()}) {
    *update.mutable_mutation() = node.NextMutation();
    update.set_learning_rate(rate);
    EXPECT_EQ(ReasonOf(node.UpdateTable(update).status()), Reason::kMalformed);
  }
  update.clear_learning_rate();
  update.set_step(-1);
  *update.mutable_mutation() = node.NextMutation();
  EXPECT_EQ(ReasonOf(node.UpdateTable(update).status()), Reason::kMalformed);
  update.set_table_uid(1);
  update.set_step(1);
  *update.mutable_mutation() = node.NextMutation();
  EXPECT_EQ(ReasonOf(node.UpdateTable(update).status()), Reason::kTableNotFound);
  EXPECT_EQ(node.ReadRows(*table, {0})->step, 0);
}

TEST(TablesFlow, PlanTellsWhatEachRankHoldsAndWarnsOfCutNorms) {
  TestNodeOptions options;
  options.ranks_per_node = {2};
  TestNode node(options);
  v1::TableSpec spec = SmallSpec("t", 10, 8);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD);
  ASSERT_TRUE(node.CreateTable(spec, v1::SHARDING_TYPE_COLUMN_WISE).ok());
  const auto plan = GetPlan(node.core(), {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->ranks_size(), 2);
  EXPECT_EQ(plan->ranks(1).rank(), 1);
  EXPECT_EQ(plan->ranks(0).table_bytes() + plan->ranks(1).table_bytes(), 10 * 8 * 4);
  EXPECT_EQ(plan->ranks(0).state_bytes(), 10 * 4);
  EXPECT_EQ(plan->ranks(0).shard_count(), 1);
  EXPECT_EQ(plan->warnings_size(), 1);
}

TEST(RowsFlow, RowsAndStateGoInAndComeOutOnEveryPlacement) {
  for (const int ranks : {1, 3}) {
    TestNodeOptions options;
    options.ranks_per_node = {ranks};
    options.deferred = ranks == 3;
    TestNode node(options);
    int index = 0;
    for (const v1::ShardingType type : {v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_ROW_WISE,
                                        v1::SHARDING_TYPE_TABLE_ROW_WISE, v1::SHARDING_TYPE_DATA_PARALLEL}) {
      v1::TableSpec spec = SmallSpec("t" + std::to_string(index++), 10, 2, 0.5f);
      spec.set_row_type(v1::DATA_TYPE_FP16);
      spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM);
      const auto table = node.CreateTable(spec, type);
      ASSERT_TRUE(table.ok()) << table.status();
      v1::WriteRowsRequest write;
      *write.mutable_mutation() = node.NextMutation();
      write.set_table_uid(table->table_uid());
      write.set_placement_version(1);
      write.set_with_state(true);
      const std::vector<int64_t> ids = {9, 0};
      const std::vector<float> rows = {1, 2, 3, 4}, m = {5, 6, 7, 8}, v = {9, 10};
      write.set_ids(ids.data(), 16);
      write.set_rows(rows.data(), 16);
      write.set_state0(m.data(), 16);
      write.set_state1(v.data(), 8);
      Answer<absl::StatusOr<v1::WriteRowsResponse>> answer;
      WriteRows(node.core(), write, answer.Callback());
      ASSERT_TRUE(answer.Wait().ok()) << answer.Wait().status();
      const auto read = node.ReadRows(*table, {0, 9, 0, 4});
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->rows, (std::vector<float>{3, 4, 1, 2, 3, 4, 0.5f, 0.5f}));
      EXPECT_EQ(read->state0, (std::vector<float>{7, 8, 5, 6, 7, 8, 0, 0}));
      EXPECT_EQ(read->state1, (std::vector<float>{10, 9, 10, 0}));
      EXPECT_EQ(node.ReadRows(*table, {})->rows, std::vector<float>());
    }
  }
}

TEST(RowsFlow, BadRowRequestsAreNamed) {
  TestNode node;
  const auto table = node.CreateTable(SmallSpec("t", 10, 2), v1::SHARDING_TYPE_TABLE_WISE);
  EXPECT_EQ(ReasonOf(node.ReadRows(*table, {10}).status()), Reason::kIdOutOfRange);
  EXPECT_EQ(ReasonOf(node.WriteRows(*table, {1, 1}, {1, 2, 3, 4}).status()), Reason::kBadJaggedLayout);
  EXPECT_EQ(ReasonOf(node.WriteRows(*table, {1}, {1, 2, 3}).status()), Reason::kBadJaggedLayout);
  v1::Table stale = *table;
  stale.set_placement_version(2);
  EXPECT_EQ(ReasonOf(node.ReadRows(stale, {1}).status()), Reason::kPlanStale);
  stale.set_table_uid(1);
  EXPECT_EQ(ReasonOf(node.ReadRows(stale, {1}).status()), Reason::kTableNotFound);
  node.core().options.limits.set_max_unary_bytes(15);
  EXPECT_TRUE(node.ReadRows(*table, {1}).ok());
  EXPECT_EQ(ReasonOf(node.ReadRows(*table, {1, 2}).status()), Reason::kMessageTooLarge);
}

TEST(StatsFlow, ServerInfoTellsLimitsAndPlace) {
  TestNodeOptions options;
  options.ranks_per_node = {1, 2};
  options.node = 1;
  TestNode node(options);
  const v1::GetServerInfoResponse info = GetServerInfo(node.core(), {});
  EXPECT_EQ(info.server_incarnation(), 77u);
  EXPECT_EQ(info.node_index(), 1);
  EXPECT_EQ(info.node_count(), 2);
  EXPECT_EQ(info.rank_count(), 2);
  EXPECT_EQ(info.limits().max_frame_bytes(), uint64_t{1} << 20);
  node.clock().Advance(std::chrono::milliseconds(1500));
  EXPECT_EQ(GetStats(node.core(), {}).uptime_ms(), 1500u);
}

}  // namespace
}  // namespace embps::testing
