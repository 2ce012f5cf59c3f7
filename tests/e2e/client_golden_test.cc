// The golden optimizer steps of the numerics contract, through the SDK and real servers, on every sharding type.
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/test_cluster.h"

namespace embps {
namespace {

constexpr float kFirstGradient[] = {0.1f, -0.2f, 0.3f, -0.4f};
constexpr float kSecondGradient[] = {-0.3f, 0.1f, 0.2f, 0.4f};
constexpr int64_t kRow = 6;

// A case of tests/golden/optimizers.txt.
struct Golden {
  std::string name;
  OptimizerType type = OptimizerType::kSgd;
  WeightDecayMode mode = WeightDecayMode::kNone;
  float weight_decay = 0;
  int column_slices = 1;
  std::map<std::string, std::vector<double>> expected;  // "row1", "row2", "state0", "state1"
};

std::vector<Golden> ReadGoldens() {
  std::vector<Golden> goldens;
  std::ifstream file(EMBPS_OPTIMIZER_GOLDEN);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word, optimizer, mode;
    if (!(words >> word) || word[0] == '#') continue;
    if (word == "case") {
      Golden& golden = goldens.emplace_back();
      words >> optimizer >> mode >> golden.weight_decay >> golden.column_slices;
      EXPECT_TRUE(ParseName(optimizer, &golden.type)) << line;
      EXPECT_TRUE(ParseName(mode, &golden.mode)) << line;
      golden.name = absl::StrCat(optimizer, "_", mode, "_", golden.column_slices);
      continue;
    }
    for (double value; words >> value;) goldens.back().expected[word].push_back(value);
  }
  return goldens;
}

TableConfig ConfigOf(const Golden& golden, ShardingType type) {
  TableConfig config;
  config.spec.name = golden.name;
  config.spec.row_count = 10;
  config.spec.dim = 4;
  config.spec.optimizer.type = golden.type;
  config.spec.optimizer.learning_rate = 0.1f;
  config.spec.optimizer.eps = 1e-8f;
  config.spec.optimizer.weight_decay = golden.weight_decay;
  config.spec.optimizer.weight_decay_mode = golden.mode;
  config.sharding.type = type;
  config.sharding.column_slices = golden.column_slices > 1 ? golden.column_slices : 0;
  return config;
}

void ExpectNear(const Golden& golden, const std::string& what, const std::vector<float>& got) {
  const auto found = golden.expected.find(what);
  if (found == golden.expected.end()) return;
  ASSERT_EQ(got.size(), found->second.size()) << golden.name << " " << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], found->second[i], 1e-5 * std::abs(found->second[i])) << golden.name << " " << what << " " << i;
  }
}

void Push(Client& client, const std::string& table, const float* gradient) {
  const KeyedJaggedTensor kjt{.keys = {table}, .lengths = {1}, .values = {kRow}};
  const PushOutcome outcome = client.PushGrad(kjt, Gradients::Pooled({gradient, 4}));
  ASSERT_TRUE(outcome.ok()) << outcome.status;
}

void SetRow(Client& client, const std::string& table) {
  TableRows rows;
  rows.ids = {kRow};
  rows.values = {1, 2, 3, 4};
  ASSERT_TRUE(client.WriteRows(table, rows).ok());
}

// Two steps from [1, 2, 3, 4].
void ExpectGolden(Client& client, const Golden& golden, ShardingType type) {
  ASSERT_TRUE(client.CreateTables({ConfigOf(golden, type)}).ok());
  SetRow(client, golden.name);
  Push(client, golden.name, kFirstGradient);
  const auto one = client.ReadRows(golden.name, {kRow}, true);
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectNear(golden, "row1", one->values);
  ExpectNear(golden, "state0", one->state0);
  ExpectNear(golden, "state1", one->state1);
  Push(client, golden.name, kSecondGradient);
  const auto two = client.ReadRows(golden.name, {kRow});
  ASSERT_TRUE(two.ok()) << two.status();
  ExpectNear(golden, "row2", two->values);
}

using Param = std::tuple<std::vector<int64_t>, ShardingType>;
class GoldenTest : public ::testing::TestWithParam<Param> {};

TEST_P(GoldenTest, OptimizerStepsEqualTheContract) {
  const testing::TestCluster cluster(std::get<0>(GetParam()));
  const auto client = cluster.Connect();
  const bool cuts_columns = std::get<1>(GetParam()) == ShardingType::kColumnWise;
  int checked = 0;
  for (const Golden& golden : ReadGoldens()) {
    if (cuts_columns != (golden.column_slices > 1)) continue;
    ExpectGolden(*client, golden, std::get<1>(GetParam()));
    ++checked;
  }
  EXPECT_EQ(checked, cuts_columns ? 1 : 10);
}

INSTANTIATE_TEST_SUITE_P(Placements, GoldenTest,
                         ::testing::Combine(::testing::Values(std::vector<int64_t>{1}, std::vector<int64_t>{2, 2}),
                                            ::testing::Values(ShardingType::kTableWise, ShardingType::kRowWise,
                                                              ShardingType::kColumnWise, ShardingType::kTableRowWise,
                                                              ShardingType::kDataParallel)),
                         [](const auto& info) {
                           const std::vector<int64_t>& ranks = std::get<0>(info.param);
                           return absl::StrCat(Name(std::get<1>(info.param)), "_", ranks.size(), "x", ranks[0]);
                         });

}  // namespace
}  // namespace embps
