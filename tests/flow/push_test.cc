// Pushes on one node: what they write, when steps advance, and what they refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/base/error.h"
#include "server/flow/stats_flow.h"
#include "server/flow/tables_flow.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

FeatureInput WithGrads(FeatureInput feature, std::vector<float> grads) {
  feature.grads = std::move(grads);
  return feature;
}

BatchInput Batch(std::vector<FeatureInput> features) {
  BatchInput batch;
  batch.features = std::move(features);
  return batch;
}

class PushEverywhere : public ::testing::TestWithParam<std::tuple<int, v1::ShardingType, bool>> {
 protected:
  PushEverywhere() : node_(Options()) {}
  static TestNodeOptions Options() {
    TestNodeOptions options;
    options.ranks_per_node = {std::get<0>(GetParam())};
    options.deferred = std::get<2>(GetParam());
    return options;
  }
  v1::Table Create(const v1::TableSpec& spec) {
    const auto table = node_.CreateTable(spec, std::get<1>(GetParam()));
    EXPECT_TRUE(table.ok()) << table.status();
    return *table;
  }
  std::vector<float> Rows(const v1::Table& table, const std::vector<int64_t>& ids) {
    const auto rows = node_.ReadRows(table, ids, /*with_state=*/false);
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::vector<float> out(ids.size() * static_cast<size_t>(table.spec().dim()));
    size_t begin = 0;
    for (const v1::RowSlice& slice : rows->slices) {
      for (size_t i = 0; i < ids.size(); ++i) {
        for (int c = slice.column_begin(); c < slice.column_end(); ++c) {
          out[i * static_cast<size_t>(table.spec().dim()) + static_cast<size_t>(c)] = rows->rows[begin++];
        }
      }
    }
    return out;
  }
  TestNode node_;
};

TEST_P(PushEverywhere, N3_F21_GradientsOfOneRowAreSummedWhereverTheyCome) {
  const v1::Table table = Create(SmallSpec("t", 6, 2));
  const auto pushed = node_.Push(Batch({WithGrads(Bags(table, {{0, 5}, {5}, {}}), {0.5f, 1, 0.5f, 1, 9, 9}),
                                        WithGrads(Bags(table, {{5, 1}}, v1::POOLING_NONE), {1, 1, 2, 2})}));
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->rows_updated(), 3u);
  EXPECT_EQ(pushed->version(), 1u);
  EXPECT_FALSE(pushed->duplicate());
  EXPECT_EQ(Rows(table, {0, 1, 5, 2}), (std::vector<float>{-0.5f, -1, -2, -2, -2, -3, 0, 0}));
}

TEST_P(PushEverywhere, N19_S9_OneBagOfThreeAndThreeBagsOfOneAgreeToTheBit) {
  v1::TableSpec spec = SmallSpec("a", 8, 3, 0.1f);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ADAGRAD);
  const v1::Table a = Create(spec);
  spec.set_name("b");
  const v1::Table b = Create(spec);
  ASSERT_TRUE(node_.Push(Batch({WithGrads(Bags(a, {{5, 5, 5}}), {0.1f, 0.7f, 1e-3f})})).ok());
  ASSERT_TRUE(
      node_
          .Push(Batch({WithGrads(Bags(b, {{5}, {5}, {5}}), {0.1f, 0.7f, 1e-3f, 0.1f, 0.7f, 1e-3f, 0.1f, 0.7f, 1e-3f})}))
          .ok());
  EXPECT_EQ(Rows(a, {5}), Rows(b, {5}));
  EXPECT_NE(Rows(a, {5}), Rows(a, {4}));
}

TEST_P(PushEverywhere, MeanDividesAndScaleAndClampComeFirst) {
  v1::TableSpec spec = SmallSpec("t", 6, 1);
  spec.mutable_optimizer()->set_max_gradient(3.0f);
  const v1::Table table = Create(spec);
  PushInput push;
  push.batch = Batch(
      {WithGrads(Bags(table, {{0, 1}, {2}}, v1::POOLING_MEAN), {1, 8}), WithGrads(Bags(table, {{3}, {4}}), {1, -8})});
  push.grad_scale = 2.0f;
  ASSERT_TRUE(node_.Push(push).ok());
  EXPECT_EQ(Rows(table, {0, 1, 2, 3, 4}), (std::vector<float>{-1, -1, -3, -2, 3}));
}

TEST_P(PushEverywhere, WeightsMultiplyTheGradient) {
  const v1::Table table = Create(SmallSpec("t", 6, 1));
  BatchInput batch = Batch({WithGrads(Bags(table, {{0, 1}, {0}}), {2, 3})});
  batch.weighted = true;
  batch.features[0].weights = {0.5f, -1, 4};
  ASSERT_TRUE(node_.Push(batch).ok());
  EXPECT_EQ(Rows(table, {0, 1}), (std::vector<float>{-13, 2}));
}

TEST_P(PushEverywhere, N22_PushesWithoutIdsAreNoOpsThatAdvanceTheStep) {
  v1::TableSpec spec = SmallSpec("t", 6, 2, 1.0f);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ADAM);
  const v1::Table table = Create(spec);
  spec.set_name("other");
  const v1::Table other = Create(spec);
  ASSERT_TRUE(node_.Push(Batch({Bags(table, {})})).ok());
  ASSERT_TRUE(
      node_.Push(Batch({WithGrads(Bags(table, {{}, {}}), {1, 2, 3, 4}), Bags(table, {}, v1::POOLING_NONE)})).ok());
  BatchInput dropped = Batch({WithGrads(Bags(table, {{-1}, {6}}), {1, 2, 3, 4})});
  dropped.policy = v1::OUT_OF_RANGE_POLICY_DROP;
  const auto pushed = node_.Push(dropped);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->rows_updated(), 0u);
  EXPECT_EQ(pushed->dropped_ids(), 1u);
  EXPECT_EQ(pushed->pruned_ids(), 1u);
  ASSERT_TRUE(node_.Push(Batch({})).ok());
  EXPECT_EQ(node_.ReadRows(table, {0})->step, 3);
  EXPECT_EQ(node_.ReadRows(other, {0})->step, 0);
  EXPECT_EQ(Rows(table, {0, 5}), (std::vector<float>{1, 1, 1, 1}));
}

TEST_P(PushEverywhere, AHotRowOfManyChunksAgreesWithAnotherOrderOfTables) {
  v1::TableSpec spec = SmallSpec("hot", 6, 2);
  const v1::Table table = Create(spec);
  std::vector<std::vector<int64_t>> bags(700, {3});
  std::vector<float> grads(1400, 1.0f);
  const auto pushed = node_.Push(Batch({WithGrads(Bags(table, bags), grads)}));
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(Rows(table, {3}), (std::vector<float>{-700, -700}));
}

TEST_P(PushEverywhere, NonfiniteGradientsAreRefusedOrLeftOut) {
  const v1::Table table = Create(SmallSpec("t", 6, 2));
  PushInput push;
  push.batch =
      Batch({WithGrads(Bags(table, {{0}, {1, 2}, {3}}), {1, 1, 2, std::numeric_limits<float>::infinity(), 3, 3})});
  EXPECT_EQ(ReasonOf(node_.Push(push).status()), Reason::kNonfiniteGradient);
  EXPECT_EQ(Rows(table, {0, 1, 2, 3}), std::vector<float>(8, 0.0f));
  EXPECT_EQ(node_.ReadRows(table, {0})->step, 0);
  push.nonfinite_policy = v1::NONFINITE_POLICY_DROP_ROWS;
  const auto pushed = node_.Push(push);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->dropped_rows(), 1u);
  EXPECT_EQ(pushed->rows_updated(), 2u);
  EXPECT_EQ(Rows(table, {0, 1, 2, 3}), (std::vector<float>{-1, -1, 0, 0, 0, 0, -3, -3}));
}

TEST_P(PushEverywhere, LearningRatesHoldForATableOrForOnePush) {
  const v1::Table table = Create(SmallSpec("t", 6, 1));
  PushInput push;
  push.batch = Batch({WithGrads(Bags(table, {{2}}), {1})});
  push.learning_rates = {{table.table_uid(), 0.25f}};
  ASSERT_TRUE(node_.Push(push).ok());
  EXPECT_EQ(Rows(table, {2}), (std::vector<float>{-0.25f}));
  v1::UpdateTableRequest update;
  *update.mutable_mutation() = node_.NextMutation();
  update.set_table_uid(table.table_uid());
  update.set_learning_rate(0.5f);
  update.set_step(10);
  const auto updated = node_.UpdateTable(update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->table().learning_rate(), 0.5f);
  push.learning_rates.clear();
  ASSERT_TRUE(node_.Push(push).ok());
  EXPECT_EQ(Rows(table, {2}), (std::vector<float>{-0.75f}));
  EXPECT_EQ(node_.ReadRows(table, {0})->step, 11);
}

INSTANTIATE_TEST_SUITE_P(Nodes, PushEverywhere,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_ROW_WISE,
                                                              v1::SHARDING_TYPE_COLUMN_WISE,
                                                              v1::SHARDING_TYPE_TABLE_ROW_WISE,
                                                              v1::SHARDING_TYPE_DATA_PARALLEL),
                                            ::testing::Bool()));

// The golden rows of numerics.md section 6, one and two steps.
struct Golden {
  v1::OptimizerType type;
  float weight_decay;
  v1::WeightDecayMode mode;
  std::vector<float> first, second;
};

std::vector<Golden> Goldens() {
  constexpr auto kNone = v1::WEIGHT_DECAY_MODE_NONE;
  return {{v1::OPTIMIZER_TYPE_ADAGRAD,
           0,
           kNone,
           {0.9f, 2.1f, 2.9f, 4.1f},
           {0.9948683f, 2.0552786f, 2.8445300f, 4.0292893f}},
          {v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD,
           0,
           kNone,
           {0.9634852f, 2.0730297f, 2.8904555f, 4.1460593f},
           {1.0409448f, 2.0472098f, 2.8388157f, 4.0427798f}},
          {v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD,
           0.01f,
           v1::WEIGHT_DECAY_MODE_L2,
           {0.9586449f, 2.0676720f, 2.8759346f, 4.1353441f},
           {1.0318788f, 2.0372408f, 2.8182481f, 4.0240475f}},
          {v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD,
           0.01f,
           v1::WEIGHT_DECAY_MODE_DECOUPLED,
           {0.9624852f, 2.0710297f, 2.8874555f, 4.1420593f},
           {1.0389823f, 2.0431388f, 2.8329283f, 4.0346377f}},
          {v1::OPTIMIZER_TYPE_ADAM,
           0.01f,
           kNone,
           {0.899f, 2.098f, 2.897f, 4.096f},
           {0.9475200f, 2.1225357f, 2.7970678f, 4.0866408f}},
          {v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM,
           0.01f,
           kNone,
           {0.9624852f, 2.0710297f, 2.8874555f, 4.1420593f},
           {1.0018812f, 2.0843333f, 2.7942419f, 4.1302300f}},
          {v1::OPTIMIZER_TYPE_LAMB,
           0.01f,
           kNone,
           {0.7221119f, 2.2696340f, 2.7166091f, 4.2641313f},
           {0.9607556f, 2.3890325f, 2.2277657f, 4.2174419f}},
          {v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_LAMB,
           0.01f,
           kNone,
           {0.8963501f, 2.1962483f, 2.6890502f, 4.3924965f},
           {1.1144208f, 2.2690732f, 2.1750412f, 4.3257425f}},
          {v1::OPTIMIZER_TYPE_LARS_SGD,
           0.01f,
           kNone,
           {0.9999000f, 2.0001636f, 2.9997000f, 4.0003273f},
           {1.0000736f, 2.0002018f, 2.9992209f, 4.0002218f}}};
}

TEST(PushFlow, GoldenOptimizerStepsComeOutOfEveryPlacementThatKeepsColumns) {
  TestNodeOptions options;
  options.ranks_per_node = {2};
  TestNode node(options);
  int index = 0;
  for (const v1::ShardingType type : {v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_ROW_WISE,
                                      v1::SHARDING_TYPE_TABLE_ROW_WISE, v1::SHARDING_TYPE_DATA_PARALLEL}) {
    for (const Golden& golden : Goldens()) {
      v1::TableSpec spec = SmallSpec("t" + std::to_string(index++), 4, 4);
      spec.mutable_optimizer()->set_type(golden.type);
      spec.mutable_optimizer()->set_learning_rate(0.1f);
      spec.mutable_optimizer()->set_weight_decay(golden.weight_decay);
      spec.mutable_optimizer()->set_weight_decay_mode(golden.mode);
      const auto table = node.CreateTable(spec, type);
      ASSERT_TRUE(table.ok()) << table.status();
      ASSERT_TRUE(node.WriteRows(*table, {3}, {1, 2, 3, 4}).ok());
      const auto expect_row = [&](const std::vector<float>& expected) {
        const auto rows = node.ReadRows(*table, {3}, false);
        for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(rows->rows[i], expected[i], 1e-5f * std::fabs(expected[i])) << index;
      };
      ASSERT_TRUE(node.Push(Batch({WithGrads(Bags(*table, {{3}}), {0.1f, -0.2f, 0.3f, -0.4f})})).ok());
      expect_row(golden.first);
      ASSERT_TRUE(node.Push(Batch({WithGrads(Bags(*table, {{3}}), {-0.3f, 0.1f, 0.2f, 0.4f})})).ok());
      expect_row(golden.second);
    }
  }
}

TEST(PushFlow, GoldenColumnSlicesHaveAStateOfTheirOwn) {
  TestNodeOptions options;
  options.ranks_per_node = {2};
  TestNode node(options);
  v1::TableSpec spec = SmallSpec("t", 4, 4);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD);
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  plan::PlacementOptions placement;
  placement.column_slices = 2;
  const auto table = node.CreateTable(spec, v1::SHARDING_TYPE_COLUMN_WISE, placement);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(node.WriteRows(*table, {1}, {1, 2, 3, 4}).ok());
  ASSERT_TRUE(node.Push(Batch({WithGrads(Bags(*table, {{1}}), {0.1f, -0.2f, 0.3f, -0.4f})})).ok());
  const auto rows = node.ReadRows(*table, {1});
  ASSERT_TRUE(rows.ok());
  const std::vector<float> expected = {0.9367545f, 2.1264911f, 2.9151472f, 4.1131371f};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(rows->rows[i], expected[i], 4e-5f);
  ASSERT_EQ(rows->state0.size(), 2u);
  EXPECT_NEAR(rows->state0[0], 0.025f, 1e-6f);
  EXPECT_NEAR(rows->state0[1], 0.125f, 1e-6f);
}

TEST(PushFlow, S25_AWrongDimIsRefusedAndTheRowUntouched) {
  TestNode node;
  const auto table = node.CreateTable(SmallSpec("t", 4, 4, 7.0f), v1::SHARDING_TYPE_TABLE_WISE);
  ASSERT_TRUE(table.ok());
  v1::Table lie = *table;
  lie.mutable_spec()->set_dim(2);
  const auto pushed = node.Push(Batch({WithGrads(Bags(lie, {{1}}), {1, 1})}));
  EXPECT_EQ(ReasonOf(pushed.status()), Reason::kDimMismatch);
  EXPECT_EQ(node.ReadRows(*table, {1}, false)->rows, std::vector<float>(4, 7.0f));
}

TEST(PushFlow, ATableDroppedInFlightIsWrittenToTheEnd) {
  TestNode node;
  const auto table = node.CreateTable(SmallSpec("t", 4, 1), v1::SHARDING_TYPE_TABLE_WISE);
  PushInput push;
  push.batch = Batch({WithGrads(Bags(*table, {{1}}), {1})});
  Answer<absl::StatusOr<v1::PushGradResponse>> answer;
  const auto flow = PushGradFlow::Begin(node.core(), node.PushHeader(push), answer.Callback());
  ASSERT_TRUE(flow.ok());
  ASSERT_TRUE(node.Feed(**flow, push).ok());
  v1::DeleteTableRequest drop;
  drop.set_name("t");
  ASSERT_TRUE(DeleteTable(node.core(), drop).ok());
  (*flow)->Start();
  const auto pushed = answer.Wait();
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->rows_updated(), 1u);
}

TEST(PushFlow, APushOfAnotherIncarnationIsRefusedAsRolledBack) {
  TestNode node;
  const auto table = node.CreateTable(SmallSpec("t", 4, 1), v1::SHARDING_TYPE_TABLE_WISE);
  v1::PushGradHeader header = node.PushHeader({});
  header.set_server_incarnation(5);
  const auto flow = PushGradFlow::Begin(node.core(), header, [](auto) {});
  EXPECT_EQ(ReasonOf(flow.status()), Reason::kStateRolledBack);
  EXPECT_EQ(MetadataValue(flow.status(), "incarnation"), "000000000000004d");
}

// Remembers the rows of every shard before they are written.
class Recorder final : public WriteObserver {
 public:
  void BeforeWrite(const TableShard& shard, absl::Span<const int64_t> local_rows) override {
    MutexLock lock(&mu_);
    for (const int64_t row : local_rows) {
      seen_.push_back(
          {shard.range().row_begin + row, static_cast<const float*>(shard.view().rows)[row * shard.view().dim]});
    }
  }
  std::vector<std::pair<int64_t, float>> Take() {
    MutexLock lock(&mu_);
    std::sort(seen_.begin(), seen_.end());
    return std::exchange(seen_, {});
  }

 private:
  Mutex mu_;
  std::vector<std::pair<int64_t, float>> seen_ ABSL_GUARDED_BY(mu_);  // global row, first value
};

TEST(PushFlow, ObserversSeeDistinctRowsBeforeTheyAreWritten) {
  for (const bool deferred : {false, true}) {
    Recorder recorder;
    TestNodeOptions options;
    options.ranks_per_node = {2};
    options.write_observer = &recorder;
    options.deferred = deferred;
    TestNode node(options);
    const auto table = node.CreateTable(SmallSpec("t", 10, 1, 5.0f), v1::SHARDING_TYPE_ROW_WISE);
    ASSERT_TRUE(node.Push(Batch({WithGrads(Bags(*table, {{9, 1, 9}, {0}}), {1, 1})})).ok());
    EXPECT_EQ(recorder.Take(), (std::vector<std::pair<int64_t, float>>{{0, 5}, {1, 5}, {9, 5}}));
    ASSERT_TRUE(node.WriteRows(*table, {9, 2}, {1, 2}).ok());
    EXPECT_EQ(recorder.Take(), (std::vector<std::pair<int64_t, float>>{{2, 5}, {9, 3}}));
  }
}

TEST(PushFlow, OneRankOfSeveralNodesUpdatesItsOwnRows) {
  TestNodeOptions options;
  options.ranks_per_node = {1, 1, 1};
  options.node = 2;  // rows 8 and 9 of 10
  TestNode node(options);
  const auto table = node.CreateTable(SmallSpec("t", 10, 1, 1.0f), v1::SHARDING_TYPE_ROW_WISE, {}, /*uid=*/9);
  ASSERT_TRUE(table.ok()) << table.status();
  FeatureInput mean = WithGrads(Bags(*table, {{9}, {8, 9}}, v1::POOLING_MEAN), {4, 6});
  mean.bag_sizes = {4, 3};
  ASSERT_TRUE(node.Push(Batch({mean})).ok());
  EXPECT_EQ(node.ReadRows(*table, {8, 9}, false)->rows, (std::vector<float>{-1, -2}));
}

TEST(PushFlow, ColumnsOnSeveralNodesTakeTheNodesColumns) {
  TestNodeOptions options;
  options.ranks_per_node = {1, 2};
  options.node = 1;
  TestNode node(options);
  plan::PlacementOptions placement;
  placement.slice_homes = {{1, 1}, {0, 0}, {1, 0}};
  const auto table = node.CreateTable(SmallSpec("t", 4, 12), v1::SHARDING_TYPE_COLUMN_WISE, placement, /*uid=*/9);
  ASSERT_TRUE(table.ok()) << table.status();
  const auto pushed = node.Push(Batch({WithGrads(Bags(*table, {{2}}), {1, 2, 3, 4, 5, 6, 7, 8})}));
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->rows_updated(), 1u);
  EXPECT_EQ(node.ReadRows(*table, {2}, false)->rows, (std::vector<float>{-1, -2, -3, -4, -5, -6, -7, -8}));
}

TEST(PushFlow, WideTablesBeyondOneCallsWorkspaceAreAllUpdated) {
  for (const int ranks : {1, 2}) {
    TestNodeOptions options;
    options.ranks_per_node = {ranks};
    TestNode node(options);
    BatchInput batch;
    for (int i = 0; i < 12; ++i) {
      const auto table = node.CreateTable(SmallSpec("t" + std::to_string(i), 4, 512), v1::SHARDING_TYPE_TABLE_WISE);
      ASSERT_TRUE(table.ok()) << table.status();
      batch.features.push_back(WithGrads(Bags(*table, {{1}}), std::vector<float>(512, static_cast<float>(i + 1))));
    }
    const auto pushed = node.Push(batch);
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    EXPECT_EQ(pushed->rows_updated(), 12u);
    for (size_t i = 0; i < batch.features.size(); ++i) {
      const auto rows = node.ReadRows(batch.features[i].table, {1}, false);
      EXPECT_EQ(rows->rows, std::vector<float>(512, -static_cast<float>(i + 1)));
    }
  }
}

TEST(PushFlow, StatisticsCountRowsOncePerPush) {
  TestNodeOptions options;
  options.ranks_per_node = {2};
  TestNode node(options);
  const auto table = node.CreateTable(SmallSpec("t", 10, 4), v1::SHARDING_TYPE_DATA_PARALLEL);
  ASSERT_TRUE(node.Push(Batch({WithGrads(Bags(*table, {{1, 2}}), {1, 1, 1, 1})})).ok());
  const v1::GetStatsResponse stats = GetStats(node.core(), {});
  EXPECT_EQ(stats.version(), 1u);
  EXPECT_EQ(stats.tables(0).pushes(), 1u);
  EXPECT_EQ(stats.tables(0).rows_updated(), 2u);
  EXPECT_EQ(stats.tables(0).step(), 1);
  EXPECT_EQ(stats.tables(0).ids_per_rank(0), 2u);
  EXPECT_EQ(stats.tables(0).ids_per_rank(1), 2u);
}

}  // namespace
}  // namespace embps::testing
