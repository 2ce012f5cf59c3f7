// The main job against real servers, and against tables that are plain loops: same trainer, same losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "client/cpp/examples/census_data.h"
#include "client/cpp/examples/click_stream.h"
#include "client/cpp/examples/served_embeddings.h"
#include "client/cpp/examples/trainer.h"
#include "tests/support/plain_embeddings.h"
#include "tests/support/test_cluster.h"

namespace embps::examples {
namespace {

using ::embps::testing::TestCluster;

std::string CensusPath() {
  const char* const folder = std::getenv("EMBPS_DATA");
  return std::string(folder != nullptr ? folder : EMBPS_DEFAULT_DATA) + "/uci_adult/adult.data";
}

// Initial rows of every feature's table, as the servers hold them.
std::vector<std::vector<float>> ReadTables(Client& client, const std::vector<FeatureShape>& features) {
  std::vector<std::vector<float>> tables;
  for (const FeatureShape& feature : features) {
    std::vector<int64_t> ids(static_cast<size_t>(feature.row_count));
    std::iota(ids.begin(), ids.end(), 0);
    absl::StatusOr<TableRows> rows = client.ReadRows(feature.name, ids);
    EXPECT_TRUE(rows.ok()) << rows.status();
    tables.push_back(std::move(rows).value().values);
  }
  return tables;
}

struct Comparison {
  TrainingResult served, plain;
};

Comparison TrainBoth(const BatchSource& source, const TrainingOptions& training, float learning_rate,
                     ShardingType sharding) {
  TestCluster cluster({2, 2});
  const std::unique_ptr<Client> client = cluster.Connect();
  auto store = ServedEmbeddings::Create(client.get(), source.features(),
                                        {.dim = training.dim, .learning_rate = learning_rate, .sharding = sharding});
  EXPECT_TRUE(store.ok()) << store.status();
  PlainEmbeddings plain(ReadTables(*client, source.features()), training.dim, learning_rate);
  const auto quiet = [](const Progress&) {};
  absl::StatusOr<TrainingResult> served = Train(source, **store, training, quiet);
  EXPECT_TRUE(served.ok()) << served.status();
  absl::StatusOr<TrainingResult> reference = Train(source, plain, training, quiet);
  return {std::move(served).value(), std::move(reference).value()};
}

void ExpectSameLosses(const Comparison& both) {
  ASSERT_EQ(both.served.losses.size(), both.plain.losses.size());
  for (size_t step = 0; step < both.served.losses.size(); ++step) {
    ASSERT_NEAR(both.served.losses[step], both.plain.losses[step], 1e-5) << "step " << step;
  }
}

class EverySharding : public ::testing::TestWithParam<ShardingType> {};

TEST_P(EverySharding, LossesEqualThoseOfPlainLoops) {
  const ClickStream stream({.seed = 5, .size_factor = 0.05, .held_out_count = 2000});
  const Comparison both = TrainBoth(stream, {.step_count = 60, .batch_size = 256}, 0.05f, GetParam());
  ExpectSameLosses(both);
  EXPECT_LT(both.served.losses.back(), both.served.losses.front());
}

INSTANTIATE_TEST_SUITE_P(ClickModel, EverySharding,
                         ::testing::Values(ShardingType::kAuto, ShardingType::kTableWise, ShardingType::kRowWise,
                                           ShardingType::kColumnWise, ShardingType::kTableRowWise,
                                           ShardingType::kDataParallel),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(ClickModelTest, CensusOnTwoNodesOfTwoRanksReachesThePublishedAuc) {
  if (!std::filesystem::exists(CensusPath())) GTEST_SKIP() << "no " << CensusPath() << "; set EMBPS_DATA";
  const absl::StatusOr<std::unique_ptr<CensusData>> data = CensusData::Load(CensusPath());
  ASSERT_TRUE(data.ok()) << data.status();
  const Comparison both = TrainBoth(**data, {.step_count = 1000, .batch_size = 256}, 0.05f, ShardingType::kAuto);
  ExpectSameLosses(both);
  EXPECT_GE(both.served.held_out.auc, 0.92);
  EXPECT_NEAR(both.served.held_out.auc, both.plain.held_out.auc, 1e-4);
}

TEST(MetricsTest, AucCountsOrderedPairsAndHalvesTies) {
  const std::vector<float> labels = {0, 1, 0, 1};
  EXPECT_DOUBLE_EQ(Measure({0.1f, 0.9f, 0.2f, 0.8f}, labels).auc, 1.0);
  EXPECT_DOUBLE_EQ(Measure({0.9f, 0.1f, 0.8f, 0.2f}, labels).auc, 0.0);
  EXPECT_DOUBLE_EQ(Measure({0.5f, 0.5f, 0.5f, 0.5f}, labels).auc, 0.5);
  EXPECT_DOUBLE_EQ(Measure({0.1f, 0.5f, 0.5f, 0.9f}, labels).auc, 0.875);
}

TEST(MetricsTest, PredictingTheMeanHasEntropyOneAndCalibrationOne) {
  const ClickMetrics metrics = Measure({0.25f, 0.25f, 0.25f, 0.25f}, {0, 1, 0, 0});
  EXPECT_NEAR(metrics.normalised_entropy, 1.0, 1e-6);
  EXPECT_NEAR(metrics.calibration, 1.0, 1e-6);
}

TEST(ClickStreamTest, PlantedModelRanksAsWellAsAnnouncedAndBatchesRepeat) {
  const ClickStream stream(ClickStreamOptions{.held_out_count = 20'000});
  const Batch held_out = stream.HeldOut();
  const double auc = Measure(stream.PlantedProbabilities(held_out), held_out.labels).auc;
  EXPECT_GT(auc, 0.75);
  EXPECT_LT(auc, 0.85);
  EXPECT_EQ(stream.Training(3, 64).ids, stream.Training(3, 64).ids);
  EXPECT_NE(stream.Training(3, 64).ids, stream.Training(4, 64).ids);
}

TEST(CensusDataTest, BadFilesAreRefusedByLine) {
  EXPECT_EQ(CensusData::Load("/no/such/file").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace embps::examples
