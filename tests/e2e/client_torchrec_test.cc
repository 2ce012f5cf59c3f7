// What torchrec, FBGEMM and torch answered for the same tables and batches, on every sharding type.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_cluster.h"

namespace embps {
namespace {

using Json = nlohmann::json;

const Json& Cases() {
  static const auto* const cases = [] {
    std::ifstream file(EMBPS_TORCHREC_GOLDEN);
    return new Json(Json::parse(file).at("cases"));
  }();
  return *cases;
}

using Rows = std::map<std::string, std::vector<float>>;

class TorchRecTest : public ::testing::TestWithParam<std::tuple<std::vector<int64_t>, ShardingType>> {
 protected:
  TorchRecTest() : cluster_(std::get<0>(GetParam())) {}
  static ShardingType type() { return std::get<1>(GetParam()); }

  // A client in a namespace of its own with the case's tables at their initial rows.
  std::unique_ptr<Client> Setup(const Json& c, size_t index, Pooling pooling) {
    ClientOptions options = cluster_.Options();
    options.table_namespace = absl::StrCat("case", index);
    std::unique_ptr<Client> client = cluster_.Connect(options);
    std::vector<TableConfig> configs;
    for (const Json& table : c.at("tables")) {
      TableConfig& config = configs.emplace_back();
      config.spec.name = table.at("name");
      config.spec.row_count = table.at("rows");
      config.spec.dim = table.at("dim");
      config.features = table.at("features").get<std::vector<std::string>>();
      config.pooling = pooling;
      config.sharding.type = type();
      if (c.contains("optimizer")) SetOptimizer(c.at("optimizer"), config.spec.optimizer);
    }
    const auto created = client->CreateTables(configs);
    EXPECT_TRUE(created.ok()) << created.status();
    for (const Json& table : c.at("tables")) {
      TableRows rows;
      for (int64_t r = 0; r < table.at("rows"); ++r) rows.ids.push_back(r);
      rows.values = table.at("initial_rows").get<std::vector<float>>();
      const absl::Status written = client->WriteRows(table.at("name").get<std::string>(), rows);
      EXPECT_TRUE(written.ok()) << written;
    }
    return client;
  }

  static void SetOptimizer(const Json& from, OptimizerSpec& to) {
    EXPECT_TRUE(ParseName(from.at("name").get<std::string>(), &to.type));
    to.learning_rate = from.at("lr");
    to.eps = from.at("eps");
    to.beta1 = from.value("b1", 0.9f);
    to.beta2 = from.value("b2", 0.999f);
    to.weight_decay = from.value("wd", 0.0f);
  }

  static KeyedJaggedTensor KjtOf(const Json& from) {
    KeyedJaggedTensor kjt;
    kjt.keys = from.at("keys").get<std::vector<std::string>>();
    kjt.lengths = from.at("lengths").get<std::vector<int64_t>>();
    kjt.values = from.at("values").get<std::vector<int64_t>>();
    if (from.contains("weights") && !from.at("weights").is_null()) {
      kjt.weighted = true;
      kjt.weights = from.at("weights").get<std::vector<float>>();
    }
    if (from.contains("stride_per_key")) kjt.stride_per_key = from.at("stride_per_key").get<std::vector<int64_t>>();
    if (from.contains("inverse_indices")) {
      kjt.inverse_indices = from.at("inverse_indices").get<std::vector<std::vector<int64_t>>>();
    }
    return kjt;
  }

  static Rows ReadAll(Client& client, const Json& c) {
    Rows all;
    for (const Json& table : c.at("tables")) {
      std::vector<int64_t> ids;
      for (int64_t r = 0; r < table.at("rows"); ++r) ids.push_back(r);
      const auto rows = client.ReadRows(table.at("name").get<std::string>(), ids);
      EXPECT_TRUE(rows.ok()) << rows.status();
      if (rows.ok()) all[table.at("name")] = rows->values;
    }
    return all;
  }

  // The contract's bound for pooled fp32 outputs, with the largest absolute row element in place of each.
  static double Slack(const Rows& rows, const KeyedJaggedTensor& kjt) {
    double largest = 0, weights = static_cast<double>(kjt.values.size());
    for (const auto& [name, values] : rows) {
      for (float value : values) largest = std::max(largest, std::abs(double{value}));
    }
    if (kjt.weighted) {
      weights = 0;
      for (float w : kjt.weights) weights += std::abs(w);
    }
    return 1e-6 + 16 * 0x1p-24 * weights * largest;
  }

  static void ExpectRows(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 1e-6 + 1e-5 * std::abs(expected[i])) << what << " element " << i;
    }
  }

  void RunPooled(const Json& c, size_t index);
  void RunSequence(const Json& c, size_t index);
  void RunVariableBatch(const Json& c, size_t index);
  void RunAdamW(const Json& c, size_t index);

  const testing::TestCluster cluster_;
};

void TorchRecTest::RunPooled(const Json& c, size_t index) {
  const auto client = Setup(c, index, c.at("pooling") == "MEAN" ? Pooling::kMean : Pooling::kSum);
  for (const Json& step : c.at("steps")) {
    const KeyedJaggedTensor kjt = KjtOf(step.at("kjt"));
    const double slack = Slack(ReadAll(*client, c), kjt);
    const auto result = client->Lookup(kjt);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->pooled.names, step.at("output_names").get<std::vector<std::string>>());
    EXPECT_EQ(result->pooled.dims, step.at("output_dims").get<std::vector<int64_t>>());
    const auto expected = step.at("output").get<std::vector<float>>();
    const absl::Span<const float> got = result->pooled.values();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], slack) << "element " << i;
    const auto grads = step.at("grad").get<std::vector<float>>();
    const PushOutcome outcome = client->PushGrad(kjt, Gradients::Pooled(grads));
    ASSERT_TRUE(outcome.ok()) << outcome.status;
  }
  const Rows rows = ReadAll(*client, c);
  for (const auto& [name, values] : rows) {
    ExpectRows(values, c.at("rows_after").at(name).get<std::vector<float>>(), absl::StrCat("rows of ", name));
    if (!c.at("state_after").contains(name)) continue;
    std::vector<int64_t> ids;
    const Json* const table = [&, n = name] {
      for (const Json& t : c.at("tables")) {
        if (t.at("name") == n) return &t;
      }
      return static_cast<const Json*>(nullptr);
    }();
    for (int64_t r = 0; r < table->at("rows"); ++r) ids.push_back(r);
    const auto state = client->ReadRows(name, ids, true);
    ASSERT_TRUE(state.ok()) << state.status();
    ExpectRows(state->state0, c.at("state_after").at(name).at(0).get<std::vector<float>>(),
               absl::StrCat("state of ", name));
  }
}

void TorchRecTest::RunSequence(const Json& c, size_t index) {
  const auto client = Setup(c, index, Pooling::kNone);
  const auto result = client->Lookup(KjtOf(c.at("kjt")));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->sequences.size(), c.at("output").size());
  for (const SequenceTensor& tensor : result->sequences) {
    ASSERT_TRUE(c.at("output").contains(tensor.name)) << tensor.name;
    const Json& expected = c.at("output").at(tensor.name);
    EXPECT_EQ(tensor.lengths, expected.at("lengths").get<std::vector<int64_t>>());
    EXPECT_THAT(tensor.values(), ::testing::ElementsAreArray(expected.at("values").get<std::vector<float>>()));
  }
}

void TorchRecTest::RunVariableBatch(const Json& c, size_t index) {
  const auto client = Setup(c, index, Pooling::kSum);
  const KeyedJaggedTensor kjt = KjtOf(c.at("kjt"));
  const double slack = Slack(ReadAll(*client, c), kjt);
  const auto result = client->Lookup(kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->pooled.names, c.at("output_names").get<std::vector<std::string>>());
  const auto expected = c.at("output").get<std::vector<float>>();
  ASSERT_EQ(result->pooled.values().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(result->pooled.values()[i], expected[i], slack);
}

void TorchRecTest::RunAdamW(const Json& c, size_t index) {
  const auto client = Setup(c, index, Pooling::kSum);
  for (const Json& step : c.at("steps")) {
    const auto grads = step.at("grad").get<std::vector<float>>();
    const PushOutcome outcome = client->PushGrad(KjtOf(step.at("kjt")), Gradients::Pooled(grads));
    ASSERT_TRUE(outcome.ok()) << outcome.status;
    ExpectRows(ReadAll(*client, c).at("t0"), step.at("rows").get<std::vector<float>>(), "rows");
  }
}

TEST_P(TorchRecTest, EveryCaseAnswersAsTheRealLibrariesDid) {
  for (size_t i = 0; i < Cases().size(); ++i) {
    const Json& c = Cases()[i];
    const std::string kind = c.at("kind");
    // A norm over the row is another one where the columns are cut.
    const bool row_norm = c.contains("optimizer") && c.at("optimizer").at("name") == "ROWWISE_ADAGRAD";
    if (row_norm && type() == ShardingType::kColumnWise) continue;
    SCOPED_TRACE(absl::StrCat("case ", i, " ", kind));
    if (kind == "pooled") RunPooled(c, i);
    if (kind == "sequence") RunSequence(c, i);
    if (kind == "variable_batch") RunVariableBatch(c, i);
    if (kind == "adamw") RunAdamW(c, i);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, TorchRecTest,
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
