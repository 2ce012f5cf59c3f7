// Lookups on one node: values, blocks, errors that change nothing, and the life of a flow.
#include <gtest/gtest.h>

#include "proto/base/error.h"
#include "server/flow/stats_flow.h"
#include "server/flow/tables_flow.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

using Rows = std::vector<std::vector<float>>;

// Row r is [100 * r, 100 * r + 1, ...].
v1::Table NumberedTable(TestNode& node, const std::string& name, int64_t rows, int32_t dim, v1::ShardingType type,
                        v1::IdType id_type = v1::ID_TYPE_INT64) {
  v1::TableSpec spec = SmallSpec(name, rows, dim);
  spec.set_id_type(id_type);
  const auto table = node.CreateTable(spec, type);
  EXPECT_TRUE(table.ok()) << table.status();
  std::vector<int64_t> ids;
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    ids.push_back(row);
    for (int32_t column = 0; column < dim; ++column) values.push_back(static_cast<float>(100 * row + column));
  }
  EXPECT_TRUE(node.WriteRows(*table, ids, values).ok());
  return *table;
}

BatchInput Batch(std::vector<FeatureInput> features) {
  BatchInput batch;
  batch.features = std::move(features);
  return batch;
}

// Every way to hold a table, on 1, 2 and 4 ranks.
class LookupEverywhere : public ::testing::TestWithParam<std::tuple<int, v1::ShardingType>> {
 protected:
  LookupEverywhere() : node_(Options()) {}
  static TestNodeOptions Options() {
    TestNodeOptions options;
    options.ranks_per_node = {std::get<0>(GetParam())};
    return options;
  }
  v1::ShardingType type() const { return std::get<1>(GetParam()); }
  TestNode node_;
};

TEST_P(LookupEverywhere, SumsDividesAndKeepsOrder) {
  const v1::Table table = NumberedTable(node_, "t", 10, 3, type());
  const std::vector<std::vector<int64_t>> bags = {{1, 9, 1}, {}, {4}, {0, 3, 6, 9}};
  const auto out = node_.Lookup(Batch(
      {Bags(table, bags), Bags(table, bags, v1::POOLING_MEAN), Bags(table, {{7, 2}, {}, {7}}, v1::POOLING_NONE)}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{1100, 1103, 1106, 0, 0, 0, 400, 401, 402, 1800, 1804, 1808}));
  EXPECT_EQ(out->rows[1],
            (std::vector<float>{1100.0f / 3, 1103.0f / 3, 1106.0f / 3, 0, 0, 0, 400, 401, 402, 450, 451, 452}));
  EXPECT_EQ(out->rows[2], (std::vector<float>{700, 701, 702, 200, 201, 202, 700, 701, 702}));
}

TEST_P(LookupEverywhere, WeightsMultiplyAndDropLeavesOut) {
  const v1::Table table = NumberedTable(node_, "t", 10, 2, type(), v1::ID_TYPE_INT32);
  BatchInput weighted = Batch({Bags(table, {{1, 9}, {3}})});
  weighted.weighted = true;
  weighted.features[0].weights = {0.5f, -1.0f, 2.0f};
  auto out = node_.Lookup(weighted);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{-850, -850.5f, 600, 602}));

  BatchInput drop = Batch(
      {Bags(table, {{1, -1, 10, 3}, {-5, 99}}, v1::POOLING_MEAN), Bags(table, {{1, -1, 10, 3}}, v1::POOLING_NONE)});
  drop.policy = v1::OUT_OF_RANGE_POLICY_DROP;
  out = node_.Lookup(drop);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{200, 201, 0, 0}));
  EXPECT_EQ(out->rows[1], (std::vector<float>{100, 101, 0, 0, 0, 0, 300, 301}));
  EXPECT_EQ(out->info.dropped_ids, 4u);
  EXPECT_EQ(out->info.pruned_ids, 2u);
}

TEST_P(LookupEverywhere, N1_MeanOfABagSplitOverRanksDividesByTheWholeBag) {
  v1::TableSpec spec = SmallSpec("t", 8, 4, 2.0f);
  const auto table = node_.CreateTable(spec, type());
  ASSERT_TRUE(table.ok()) << table.status();
  const auto out = node_.Lookup(Batch({Bags(*table, {{0, 7}}, v1::POOLING_MEAN)}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{2, 2, 2, 2}));
}

TEST_P(LookupEverywhere, N4_EmptyBatchesAndN22_EmptyBagsAnswerWithoutIds) {
  const v1::Table table = NumberedTable(node_, "t", 5, 4, type());
  const auto nothing = node_.Lookup(Batch({}));
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(nothing->blocks, 0);
  const auto out = node_.Lookup(Batch({Bags(table, {}), Bags(table, {{}, {}}), Bags(table, {{}}, v1::POOLING_NONE),
                                       Bags(table, {{1, 2, 3}, {4}, {}})}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], std::vector<float>());
  EXPECT_EQ(out->rows[1], std::vector<float>(8, 0.0f));
  EXPECT_EQ(out->rows[2], std::vector<float>());
  EXPECT_EQ(out->rows[3], (std::vector<float>{600, 603, 606, 609, 400, 401, 402, 403, 0, 0, 0, 0}));
}

TEST_P(LookupEverywhere, N15_MoreRanksThanRows) {
  const v1::Table table = NumberedTable(node_, "one", 1, 4, type());
  const auto out = node_.Lookup(Batch({Bags(table, {{0, 0}, {}, {0}})}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{0, 2, 4, 6, 0, 0, 0, 0, 0, 1, 2, 3}));
}

TEST_P(LookupEverywhere, HalfPrecisionIsConvertedOnceAndLast) {
  const v1::Table table = NumberedTable(node_, "t", 10, 4, type());
  for (const v1::DataType dtype : {v1::DATA_TYPE_FP16, v1::DATA_TYPE_BF16}) {
    BatchInput batch = Batch({Bags(table, {{1, 2}, {3}}), Bags(table, {{2}}, v1::POOLING_NONE)});
    batch.output_dtype = dtype;
    const auto out = node_.Lookup(batch);
    ASSERT_TRUE(out.ok()) << out.status();
    const bool half = dtype == v1::DATA_TYPE_FP16;
    EXPECT_EQ(out->rows[0], half ? (std::vector<float>{300, 302, 304, 306, 300, 301, 302, 303})
                                 : (std::vector<float>{300, 302, 304, 306, 300, 300, 302, 304}));
    EXPECT_EQ(out->rows[1], half ? (std::vector<float>{200, 201, 202, 203}) : (std::vector<float>{200, 201, 202, 203}));
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, LookupEverywhere,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_ROW_WISE,
                                                              v1::SHARDING_TYPE_COLUMN_WISE,
                                                              v1::SHARDING_TYPE_TABLE_ROW_WISE,
                                                              v1::SHARDING_TYPE_DATA_PARALLEL)));

TEST(LookupFlow, N16_AFeatureFeedingTwoTablesAnswersTwice) {
  TestNode node;
  const v1::Table a = NumberedTable(node, "a", 100, 2, v1::SHARDING_TYPE_TABLE_WISE);
  const v1::Table b = NumberedTable(node, "b", 1000, 3, v1::SHARDING_TYPE_TABLE_WISE);
  const auto out = node.Lookup(Batch({Bags(a, {{99}, {1}}), Bags(b, {{99}, {1}})}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{9900, 9901, 100, 101}));
  EXPECT_EQ(out->rows[1], (std::vector<float>{9900, 9901, 9902, 100, 101, 102}));
}

TEST(LookupFlow, N17_OutputsStandInTheOrderAskedWhateverTheirGroups) {
  TestNodeOptions options;
  options.ranks_per_node = {3};
  TestNode node(options);
  std::vector<FeatureInput> features;
  constexpr v1::ShardingType kTypes[] = {v1::SHARDING_TYPE_ROW_WISE, v1::SHARDING_TYPE_TABLE_WISE,
                                         v1::SHARDING_TYPE_COLUMN_WISE};
  for (int i = 0; i < 9; ++i) {
    v1::TableSpec spec = SmallSpec("t" + std::to_string(i), 6, 4, static_cast<float>(i + 1));
    spec.set_row_type(i % 2 == 0 ? v1::DATA_TYPE_FP32 : v1::DATA_TYPE_FP16);
    plan::PlacementOptions placement;
    placement.rank = i % 3;
    const auto table = node.CreateTable(spec, kTypes[i % 3], placement);
    ASSERT_TRUE(table.ok()) << table.status();
    features.push_back(Bags(*table, {{0, 5}, {3}}, i % 4 == 0 ? v1::POOLING_MEAN : v1::POOLING_SUM));
  }
  std::swap(features[0], features[7]);
  std::swap(features[2], features[5]);
  const auto out = node.Lookup(Batch(features));
  ASSERT_TRUE(out.ok()) << out.status();
  for (size_t f = 0; f < features.size(); ++f) {
    const float value = features[f].table.spec().initializer().a();
    const float first = features[f].pooling == v1::POOLING_MEAN ? value : 2 * value;
    EXPECT_EQ(out->rows[f], (std::vector<float>{first, first, first, first, value, value, value, value})) << f;
  }
}

TEST(LookupFlow, BlocksHoldAtMostAFrameAndComeOneAfterAnother) {
  TestNode node;
  const v1::Table table = NumberedTable(node, "t", 10, 64, v1::SHARDING_TYPE_TABLE_WISE);
  FeatureInput large = Bags(table, std::vector<std::vector<int64_t>>(100, {1}));  // 25,600 bytes
  FeatureInput small = Bags(table, {{2}});                                        // 256 bytes
  const BatchInput batch = Batch({small, small, large, small});
  const auto flow = LookupFlow::Begin(node.core(), node.LookupHeader(batch));
  ASSERT_TRUE(flow.ok()) << flow.status();
  ASSERT_TRUE(node.Feed(**flow, batch).ok());
  ASSERT_EQ((*flow)->block_count(), 8);  // 2 small | 6 parts of 16 rows | 4 rows and the last small one
  EXPECT_EQ((*flow)->reply_bytes(), 25'600 + 3 * 256);
  Answer<absl::Status> answer;
  (*flow)->Start([](int) {}, answer.Callback());
  ASSERT_TRUE(answer.Wait().ok());
  for (int i = 0; i < 8; ++i) EXPECT_LE((*flow)->TakeBlock(i).bytes, 4096);
}

TEST(LookupFlow, BlocksOutliveTheFlowAndHoldTheAdmission) {
  for (const int ranks : {1, 2}) {
    TestNodeOptions options;
    options.ranks_per_node = {ranks};
    TestNode node(options);
    const v1::Table table = NumberedTable(node, "t", 10, 4, v1::SHARDING_TYPE_ROW_WISE);
    const BatchInput batch = Batch({Bags(table, {{3}, {9}})});
    auto grant = std::make_shared<int>(0);
    const std::weak_ptr<int> granted = grant;
    auto flow = *LookupFlow::Begin(node.core(), node.LookupHeader(batch));
    ASSERT_TRUE(node.Feed(*flow, batch, std::move(grant)).ok());
    Answer<absl::Status> answer;
    flow->Start([](int) {}, answer.Callback());
    ASSERT_TRUE(answer.Wait().ok());
    ReplyBlock block = flow->TakeBlock(0);
    flow.reset();
    node.AwaitLanes();
    EXPECT_FALSE(granted.expired());
    const auto* values = static_cast<const float*>(block.data);
    EXPECT_EQ(std::vector<float>(values, values + 8), (std::vector<float>{300, 301, 302, 303, 900, 901, 902, 903}));
    block = {};
    EXPECT_TRUE(granted.expired());
  }
}

TEST(LookupFlow, N20_S13_LookupsChangeNeitherStateNorRowsNorStep) {
  TestNode node;
  v1::TableSpec spec = SmallSpec("t", 4, 4, 1.0f);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ADAM);
  const auto table = node.CreateTable(spec, v1::SHARDING_TYPE_TABLE_WISE);
  ASSERT_TRUE(table.ok());
  const auto before = node.ReadRows(*table, {0, 1, 2, 3});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(node.Lookup(Batch({Bags(*table, {{0, 1}, {3}})})).ok());
  const auto after = node.ReadRows(*table, {0, 1, 2, 3});
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->rows, after->rows);
  EXPECT_EQ(before->state0, after->state0);
  EXPECT_EQ(before->state1, after->state1);
  EXPECT_EQ(after->step, 0);
}

TEST(LookupFlow, AFlowDroppedBeforeStartHasChangedNothing) {
  TestNode node;
  const v1::Table table = NumberedTable(node, "t", 10, 4, v1::SHARDING_TYPE_TABLE_WISE);
  const BatchInput batch = Batch({Bags(table, {{3}})});
  {
    const auto flow = LookupFlow::Begin(node.core(), node.LookupHeader(batch));
    ASSERT_TRUE(flow.ok());
    ASSERT_TRUE(node.Feed(**flow, batch).ok());
  }
  EXPECT_TRUE(node.Lookup(batch).ok());
}

TEST(LookupFlow, ACancelledLookupIsDoneAllTheSame) {
  for (const int ranks : {1, 4}) {
    TestNodeOptions options;
    options.ranks_per_node = {ranks};
    TestNode node(options);
    const v1::Table table = NumberedTable(node, "t", 10, 4, v1::SHARDING_TYPE_ROW_WISE);
    const BatchInput batch = Batch({Bags(table, {{3}})});
    const auto flow = LookupFlow::Begin(node.core(), node.LookupHeader(batch));
    ASSERT_TRUE(flow.ok());
    ASSERT_TRUE(node.Feed(**flow, batch).ok());
    (*flow)->Cancel();
    int announced = 0;
    Answer<absl::Status> answer;
    (*flow)->Start([&](int) { ++announced; }, answer.Callback());
    EXPECT_TRUE(answer.Wait().ok());
    EXPECT_EQ(announced, 0);
    EXPECT_TRUE(node.Lookup(batch).ok());  // the lanes go on
  }
}

TEST(LookupFlow, ATableDroppedInFlightIsReadToTheEnd) {
  TestNode node;
  const v1::Table table = NumberedTable(node, "t", 10, 2, v1::SHARDING_TYPE_TABLE_WISE);
  const BatchInput batch = Batch({Bags(table, {{3}})});
  const auto flow = LookupFlow::Begin(node.core(), node.LookupHeader(batch));
  ASSERT_TRUE(flow.ok());
  ASSERT_TRUE(node.Feed(**flow, batch).ok());
  v1::DeleteTableRequest drop;
  drop.set_name("t");
  EXPECT_EQ(DeleteTable(node.core(), drop)->table_uid(), table.table_uid());
  Answer<absl::Status> answer;
  (*flow)->Start([](int) {}, answer.Callback());
  ASSERT_TRUE(answer.Wait().ok());
  const ReplyBlock block = (*flow)->TakeBlock(0);
  EXPECT_EQ(static_cast<const float*>(block.data)[1], 301.0f);
  EXPECT_EQ(ReasonOf(node.Lookup(batch).status()), Reason::kTableNotFound);
}

TEST(LookupFlow, BadRequestsAreNamedAndChangeNothing) {
  TestNode node;
  const v1::Table table = NumberedTable(node, "t", 10, 4, v1::SHARDING_TYPE_TABLE_WISE);
  const BatchInput good = Batch({Bags(table, {{3}})});
  v1::LookupHeader header = node.LookupHeader(good);

  header.set_server_incarnation(1);
  EXPECT_EQ(ReasonOf(LookupFlow::Begin(node.core(), header).status()), Reason::kStateRolledBack);
  header.set_server_incarnation(0);
  EXPECT_TRUE(LookupFlow::Begin(node.core(), header).ok());

  header.mutable_features(0)->set_placement_version(9);
  EXPECT_EQ(ReasonOf(LookupFlow::Begin(node.core(), header).status()), Reason::kPlanStale);
  header.mutable_features(0)->set_placement_version(1);

  header.mutable_features(0)->set_dim(8);
  EXPECT_EQ(ReasonOf(LookupFlow::Begin(node.core(), header).status()), Reason::kDimMismatch);
  header.mutable_features(0)->set_dim(4);

  header.set_want_lookup_token(true);
  header.set_session_id(std::string(16, 'x'));
  EXPECT_EQ(ReasonOf(LookupFlow::Begin(node.core(), header).status()), Reason::kSessionEnded);

  const auto bad_id = node.Lookup(Batch({Bags(table, {{3, 10}})}));
  EXPECT_EQ(ReasonOf(bad_id.status()), Reason::kIdOutOfRange);
  EXPECT_EQ(MetadataValue(bad_id.status(), "first_bad_id"), "10");
  EXPECT_TRUE(node.Lookup(good).ok());
}

TEST(LookupFlow, RowsOnSeveralNodesAnswerDividedPartialSums) {
  TestNodeOptions options;
  options.ranks_per_node = {2, 2};
  options.node = 1;  // rows 6 to 9 of 10
  TestNode node(options);
  const auto table = node.CreateTable(SmallSpec("t", 10, 2, 3.0f), v1::SHARDING_TYPE_ROW_WISE, {}, /*uid=*/9);
  ASSERT_TRUE(table.ok()) << table.status();
  FeatureInput mean = Bags(*table, {{6, 9}, {}, {7}}, v1::POOLING_MEAN);
  mean.bag_sizes = {4, 2, 1};
  const auto out = node.Lookup(Batch({mean, Bags(*table, {{8}}, v1::POOLING_NONE), Bags(*table, {{6, 8}})}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{1.5f, 1.5f, 0, 0, 3, 3}));
  EXPECT_EQ(out->rows[1], (std::vector<float>{3, 3}));
  EXPECT_EQ(out->rows[2], (std::vector<float>{6, 6}));

  EXPECT_EQ(ReasonOf(node.Lookup(Batch({Bags(*table, {{5}})})).status()), Reason::kBadJaggedLayout);
  EXPECT_EQ(ReasonOf(node.Lookup(Batch({Bags(*table, {{6}}, v1::POOLING_MEAN)})).status()), Reason::kBadJaggedLayout);
  BatchInput half = Batch({Bags(*table, {{6}})});
  half.output_dtype = v1::DATA_TYPE_FP16;
  EXPECT_EQ(ReasonOf(node.Lookup(half).status()), Reason::kDtypeUnsupported);
}

TEST(LookupFlow, OneRankOfSeveralNodesTakesIdsRelativeToItsRows) {
  TestNodeOptions options;
  options.ranks_per_node = {1, 1, 1};
  options.node = 1;  // rows 4 to 7 of 10
  TestNode node(options);
  const auto table = node.CreateTable(SmallSpec("t", 10, 1, 1.0f), v1::SHARDING_TYPE_ROW_WISE, {}, /*uid=*/9);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(node.WriteRows(*table, {4, 5, 6, 7}, {40, 50, 60, 70}).ok());
  BatchInput batch = Batch({Bags(*table, {{7, 4}, {5}}), Bags(*table, {{6, -1, 4}}, v1::POOLING_NONE)});
  batch.policy = v1::OUT_OF_RANGE_POLICY_DROP;
  const auto out = node.Lookup(batch);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{110, 50}));
  EXPECT_EQ(out->rows[1], (std::vector<float>{60, 0, 40}));
}

TEST(LookupFlow, ColumnsOnSeveralNodesAnswerTheNodesColumnsSideBySide) {
  TestNodeOptions options;
  options.ranks_per_node = {1, 2};
  options.node = 1;
  TestNode node(options);
  plan::PlacementOptions placement;
  placement.slice_homes = {{1, 1}, {0, 0}, {1, 0}, {1, 1}};
  const auto table = node.CreateTable(SmallSpec("t", 4, 16), v1::SHARDING_TYPE_COLUMN_WISE, placement, /*uid=*/9);
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<float> row;
  for (int c = 0; c < 16; ++c) row.push_back(static_cast<float>(c));
  ASSERT_TRUE(node.WriteRows(*table, {2}, row).ok());
  const auto out = node.Lookup(Batch({Bags(*table, {{2, 2}}), Bags(*table, {{2}}, v1::POOLING_NONE)}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->rows[0], (std::vector<float>{0, 2, 4, 6, 16, 18, 20, 22, 24, 26, 28, 30}));
  EXPECT_EQ(out->rows[1], (std::vector<float>{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(LookupFlow, StatisticsCountWhatDropLeftOutByTable) {
  TestNode node;
  const v1::Table a = NumberedTable(node, "a", 10, 2, v1::SHARDING_TYPE_TABLE_WISE);
  const v1::Table b = NumberedTable(node, "b", 5, 2, v1::SHARDING_TYPE_TABLE_WISE);
  BatchInput batch = Batch({Bags(a, {{9, 10, -1}}), Bags(b, {{9, 10, -2, -1, 4}}, v1::POOLING_NONE)});
  batch.policy = v1::OUT_OF_RANGE_POLICY_DROP;
  ASSERT_TRUE(node.Lookup(batch).ok());
  const v1::GetStatsResponse stats = GetStats(node.core(), {});
  EXPECT_EQ(stats.tables(0).dropped_ids(), 1u);
  EXPECT_EQ(stats.tables(0).pruned_ids(), 1u);
  EXPECT_EQ(stats.tables(1).dropped_ids(), 3u);
  EXPECT_EQ(stats.tables(1).pruned_ids(), 1u);
}

TEST(LookupFlow, StatisticsCountIdsByTheRanksThatServeThem) {
  TestNodeOptions options;
  options.ranks_per_node = {2};
  TestNode node(options);
  const v1::Table table = NumberedTable(node, "t", 10, 4, v1::SHARDING_TYPE_ROW_WISE);
  ASSERT_TRUE(node.Lookup(Batch({Bags(table, {{0, 1, 9}, {2}})})).ok());
  const v1::GetStatsResponse stats = GetStats(node.core(), {});
  ASSERT_EQ(stats.tables_size(), 1);
  EXPECT_EQ(stats.tables(0).lookups(), 1u);
  EXPECT_EQ(stats.tables(0).ids_looked_up(), 4u);
  EXPECT_EQ(stats.tables(0).ids_per_rank(0), 3u);
  EXPECT_EQ(stats.tables(0).ids_per_rank(1), 1u);
  EXPECT_GT(stats.collective_bytes(), 0u);
}

}  // namespace
}  // namespace embps::testing
