// The SDK against real servers: placements, streams, restarts, sockets, many threads.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_cluster.h"

namespace embps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TableConfig Constant(const std::string& name, int64_t rows, int32_t dim, float value, ShardingType type,
                     Pooling pooling = Pooling::kSum) {
  TableConfig config;
  config.spec.name = name;
  config.spec.row_count = rows;
  config.spec.dim = dim;
  config.spec.optimizer.learning_rate = 1.0f;
  config.spec.initializer.kind = InitializerKind::kConstant;
  config.spec.initializer.a = value;
  config.pooling = pooling;
  config.sharding.type = type;
  return config;
}

constexpr ShardingType kAllTypes[] = {ShardingType::kAuto,         ShardingType::kTableWise,
                                      ShardingType::kRowWise,      ShardingType::kColumnWise,
                                      ShardingType::kTableRowWise, ShardingType::kDataParallel};

// Established connections to `address`, 127.0.0.1 plain or mapped into IPv6, seen from the side that made them.
int ConnectionsTo(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  const std::string remote = absl::AsciiStrToUpper(absl::StrCat("0100007F:", absl::Hex(port, absl::kZeroPad4)));
  int count = 0;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    for (std::string line; std::getline(table, line);) {
      const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (fields.size() > 3 && absl::EndsWith(fields[2], remote) && fields[3] == "01") ++count;
    }
  }
  return count;
}

class ShapeTest : public ::testing::TestWithParam<std::vector<int64_t>> {};

// Integer rows and gradients: every placement gives the same bits.
TEST_P(ShapeTest, LookupsAndPushesAreExactOnEveryShardingType) {
  const testing::TestCluster cluster(GetParam());
  const auto client = cluster.Connect();
  for (ShardingType type : kAllTypes) {
    SCOPED_TRACE(std::string(Name(type)));
    TableConfig config = Constant("t", 11, 8, 3.0f, type);
    config.features = {"f"};
    TableConfig items = Constant("s", 7, 4, 2.0f, type, Pooling::kNone);
    items.features = {"g"};
    const auto created = client->CreateTables({config, items});
    ASSERT_TRUE(created.ok()) << created.status();
    KeyedJaggedTensor kjt{.keys = {"g", "f"}, .lengths = {1, 0, 2, 3, 0, 1}, .values = {6, 0, 6, 0, 10, 5, 10}};
    const auto before = client->Lookup(kjt);
    ASSERT_TRUE(before.ok()) << before.status();
    EXPECT_EQ(before->pooled.row(0, 0)[7], 9.0f);
    EXPECT_EQ(before->pooled.row(0, 1)[0], 0.0f);
    EXPECT_EQ(before->pooled.row(0, 2)[3], 3.0f);
    EXPECT_THAT(before->sequences.at(0).lengths, ElementsAre(1, 0, 2));
    std::vector<float> pooled(24), rows(12);
    for (size_t i = 0; i < pooled.size(); ++i) pooled[i] = static_cast<float>(i / 8 + 1);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i / 4 + 1);
    const PushOutcome outcome = client->PushGrad(kjt, Gradients::Of(pooled, {rows}));
    ASSERT_TRUE(outcome.ok()) << outcome.status;
    const auto table = client->ReadRows("t", {0, 5, 10, 9});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->values[0], 2.0f);
    EXPECT_EQ(table->values[8 + 7], 2.0f);
    EXPECT_EQ(table->values[16 + 3], 3.0f - 1.0f - 3.0f);
    EXPECT_EQ(table->values[24], 3.0f);
    EXPECT_EQ(table->step, 1);
    const auto sequence = client->ReadRows("s", {0, 6, 1});
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    EXPECT_EQ(sequence->values[0], 0.0f);
    EXPECT_EQ(sequence->values[4], 2.0f - 1.0f - 3.0f);
    EXPECT_EQ(sequence->values[8], 2.0f);
    for (const char* name : {"t", "s"}) EXPECT_TRUE(*client->DropTable(name));
  }
}

// The same batch by token and by ids gives the same rows.
TEST_P(ShapeTest, PushesByLookupTokenEqualPushesByIds) {
  const testing::TestCluster cluster(GetParam());
  const auto client = cluster.Connect();
  std::vector<TableConfig> configs;
  for (ShardingType type : kAllTypes) {
    for (Pooling pooling : {Pooling::kSum, Pooling::kNone}) {
      configs.push_back(Constant(absl::StrCat("t", configs.size()), 13, 8, 1.0f, type, pooling));
    }
  }
  ASSERT_TRUE(client->CreateTables(configs).ok());
  KeyedJaggedTensor kjt;
  for (const TableConfig& config : configs) {
    kjt.keys.push_back(config.spec.name);
    for (int64_t length : {2, 0, 3, 1}) kjt.lengths.push_back(length);
    for (int64_t id : {12, 0, 7, 7, 3, 0}) kjt.values.push_back(id);
  }
  std::vector<std::vector<float>> rows_of_round;
  for (bool token : {true, false}) {
    LookupOptions want;
    want.want_token = token;
    const auto result = client->Lookup(kjt, want);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->token != nullptr, token);
    std::vector<float> pooled(static_cast<size_t>(result->pooled.element_count));
    for (size_t i = 0; i < pooled.size(); ++i) pooled[i] = static_cast<float>(i % 5);
    std::vector<std::vector<float>> sequences;
    for (const SequenceTensor& tensor : result->sequences) {
      sequences.emplace_back(static_cast<size_t>(tensor.row_count * tensor.dim), 2.0f);
    }
    PushOptions options;
    options.token = result->token;
    const PushOutcome outcome =
        client->PushGrad(kjt, Gradients::Of(pooled, {sequences.begin(), sequences.end()}), options);
    ASSERT_TRUE(outcome.ok()) << outcome.status;
    std::vector<float>& all = rows_of_round.emplace_back();
    for (const TableConfig& config : configs) {
      const auto rows = client->ReadRows(config.spec.name, {0, 3, 7, 12, 1});
      ASSERT_TRUE(rows.ok()) << rows.status();
      for (float value : rows->values) all.push_back(value);
    }
  }
  // Both rounds subtracted the same: 1 - a, then 1 - 2a.
  for (size_t i = 0; i < rows_of_round[0].size(); ++i)
    EXPECT_EQ(rows_of_round[1][i] - 1.0f, 2 * (rows_of_round[0][i] - 1.0f));
}

INSTANTIATE_TEST_SUITE_P(Clusters, ShapeTest,
                         ::testing::Values(std::vector<int64_t>{1}, std::vector<int64_t>{4}, std::vector<int64_t>{2, 2},
                                           std::vector<int64_t>{1, 1, 1}),
                         [](const auto& info) { return absl::StrCat(info.param.size(), "x", info.param[0]); });

TEST(ClientTest, S17_SixtyFourMegabytesStreamByThemselves) {
  const testing::TestCluster cluster({1, 1});
  const auto client = cluster.Connect();
  TableConfig config = Constant("t", 1000, 256, 1.0f, ShardingType::kRowWise);
  ASSERT_TRUE(client->CreateTables({config}).ok());
  KeyedJaggedTensor kjt{.keys = {"t"}};
  for (int64_t i = 0; i < 65536; ++i) kjt.lengths.push_back(1), kjt.values.push_back(i * 7919 % 1000);
  const auto result = client->Lookup(kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->pooled.element_count, 65536 * 256);
  int64_t wrong = 0;
  for (float value : result->pooled.values()) wrong += value != 1.0f;
  EXPECT_EQ(wrong, 0);
  const std::vector<float> grads(65536 * 256, 1.0f);
  const PushOutcome outcome = client->PushGrad(kjt, Gradients::Pooled(grads));
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  const auto rows = client->ReadRows("t", {0, 999});
  int64_t zeros = 0, last = 0;
  for (int64_t id : kjt.values) zeros += id == 0, last += id == 999;
  EXPECT_EQ(rows->values[0], 1.0f - static_cast<float>(zeros));
  EXPECT_EQ(rows->values[511], 1.0f - static_cast<float>(last));
}

TEST(ClientTest, U6_TheServersLimitsHoldBothWays) {
  const testing::TestCluster cluster({1, 1}, [](ServerOptions& options) {
    options.config.max_unary_bytes = 128 << 10;
    options.config.max_frame_bytes = 64 << 10;
  });
  const auto client = cluster.Connect();
  EXPECT_EQ(client->servers()[0].limits.max_unary_bytes, 128 << 10);
  ASSERT_TRUE(client->CreateTables({Constant("t", 5000, 16, 1.0f, ShardingType::kRowWise)}).ok());
  KeyedJaggedTensor kjt{.keys = {"t"}};
  TableRows rows;
  for (int64_t i = 0; i < 5000; ++i) {
    kjt.lengths.push_back(1);
    kjt.values.push_back(i);
    rows.ids.push_back(i);
    for (int64_t c = 0; c < 16; ++c) rows.values.push_back(static_cast<float>(i + c));
  }
  ASSERT_TRUE(client->WriteRows("t", rows).ok());
  const auto result = client->Lookup(kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(std::memcmp(result->pooled.data.get(), rows.values.data(), rows.values.size() * sizeof(float)), 0);
  const std::vector<float> grads(rows.values.size(), 1.0f);
  ASSERT_TRUE(client->PushGrad(kjt, Gradients::Pooled(grads)).ok());
  const auto read = client->ReadRows("t", rows.ids);
  ASSERT_TRUE(read.ok()) << read.status();
  for (size_t i = 0; i < rows.values.size(); ++i) ASSERT_EQ(read->values[i], rows.values[i] - 1.0f);
}

TEST(ClientTest, S12_ServersAndClientsMayStartInAnyOrder) {
  testing::TestCluster cluster({1, 1});
  cluster.Stop(0);
  std::thread late([&] { cluster.Start(0); });
  const auto client = cluster.Connect();
  late.join();
  EXPECT_TRUE(client->CreateTables({Constant("t", 10, 4, 1.0f, ShardingType::kRowWise)}).ok());
}

TEST(ClientTest, S1_S2_S3_ARestartIsAnnouncedOnlyThatNodeBeginsAgainAndVersionsTellAMixedRead) {
  testing::TestCluster cluster({1, 1});
  const auto client = cluster.Connect();
  ASSERT_TRUE(client->CreateTables({Constant("t", 10, 4, 1.0f, ShardingType::kRowWise)}).ok());
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1, 1}, .values = {0, 9}};
  const std::vector<float> grads(8, 1.0f);
  ASSERT_TRUE(client->PushGrad(kjt, Gradients::Pooled(grads)).ok());
  cluster.Stop(1);
  LookupOptions quick;
  quick.timeout_ms = 500;
  const absl::Status down = client->Lookup(kjt, quick).status();
  EXPECT_TRUE(absl::IsUnavailable(down) || absl::IsDeadlineExceeded(down)) << down;
  cluster.Start(1);
  EXPECT_EQ(ErrorReason(client->Lookup(kjt).status()), "STATE_ROLLED_BACK");
  EXPECT_EQ(ErrorReason(client->PushGrad(kjt, Gradients::Pooled(grads)).status), "STATE_ROLLED_BACK");
  EXPECT_EQ(client->rollback_count(), 1u);
  ASSERT_TRUE(client->Recover().ok());
  const auto result = client->Lookup(kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->pooled.row(0, 0)[0], -1.0f);  // node 0 kept its two pushes
  EXPECT_EQ(result->pooled.row(0, 1)[0], 1.0f);   // node 1 begins again
  ASSERT_EQ(result->nodes.size(), 2u);
  EXPECT_EQ(result->nodes[0].version, 2u);
  EXPECT_EQ(result->nodes[1].version, 0u);
  EXPECT_NE(result->nodes[0].incarnation, result->nodes[1].incarnation);
  EXPECT_TRUE(client->PushGrad(kjt, Gradients::Pooled(grads)).ok());
}

TEST(ClientTest, RecreateGoesOnWithoutTheTrainer) {
  testing::TestCluster cluster({1, 1});
  ClientOptions options = cluster.Options();
  options.on_rollback = OnRollback::kRecreate;
  const auto client = cluster.Connect(options);
  ASSERT_TRUE(client->CreateTables({Constant("t", 10, 4, 1.0f, ShardingType::kRowWise)}).ok());
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1, 1}, .values = {0, 9}};
  for (int node = 0; node < 2; ++node) {
    cluster.Stop(node);
    cluster.Start(node);
    const auto result = client->Lookup(kjt);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->pooled.row(0, 0)[0], 1.0f);
  }
  EXPECT_EQ(client->rollback_count(), 2u);
}

// One worker, the first of a fresh server, in every mode: sharding, pooling, unary or streamed, ids or token.
TEST(ClientTest, S8_OneWorkerSmokeOfEveryMode) {
  for (const ShardingType type : kAllTypes) {
    for (const Pooling pooling : {Pooling::kSum, Pooling::kMean, Pooling::kNone}) {
      for (const bool streamed : {false, true}) {
        SCOPED_TRACE(
            absl::StrCat(std::string(Name(type)), " ", std::string(Name(pooling)), streamed ? " streamed" : ""));
        const testing::TestCluster cluster({1});
        const auto client = cluster.Connect();
        ASSERT_TRUE(client->CreateTables({Constant("t", 8, 64, 2.0f, type, pooling)}).ok());
        const int64_t bags = streamed ? 20'000 : 3;  // 5 MB of rows, above the unary limit
        KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = std::vector<int64_t>(bags, 1), .values = {}};
        kjt.values.assign(bags, 5);
        LookupOptions options;
        options.want_token = true;
        const auto result = client->Lookup(kjt, options);
        ASSERT_TRUE(result.ok()) << result.status();
        const absl::Span<const float> rows =
            pooling == Pooling::kNone ? result->sequences[0].values() : result->pooled.values();
        EXPECT_TRUE(std::all_of(rows.begin(), rows.end(), [](float x) { return x == 2.0f; }));
        const std::vector<float> grads(rows.size(), 1.0f);
        const Gradients gradients = pooling == Pooling::kNone ? Gradients::Of({}, {grads}) : Gradients::Pooled(grads);
        PushOptions by_token;
        by_token.token = result->token;
        EXPECT_TRUE(client->PushGrad(kjt, gradients).ok());
        EXPECT_TRUE(client->PushGrad(kjt, gradients, by_token).ok());
        const auto read = client->ReadRows("t", {5});
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_THAT(read->values, ::testing::Each(2.0f - 2.0f * static_cast<float>(bags)));
      }
    }
  }
}

TEST(ClientTest, F6_AsManyConnectionsAsConfigured) {
  const testing::TestCluster cluster({1});
  ClientOptions options = cluster.Options();
  options.channels_per_node = 3;
  const auto client = cluster.Connect(options);
  ASSERT_TRUE(client->CreateTables({Constant("t", 10, 4, 1.0f, ShardingType::kTableWise)}).ok());
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1}, .values = {0}};
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(client->Lookup(kjt).ok());
  EXPECT_EQ(ConnectionsTo(cluster.address(0)), 3);
}

TEST(ClientTest, ManyThreadsShareOneClient) {
  const testing::TestCluster cluster({2, 2});
  const auto client = cluster.Connect();
  ASSERT_TRUE(client
                  ->CreateTables({Constant("r", 100, 4, 0.0f, ShardingType::kRowWise),
                                  Constant("c", 100, 8, 0.0f, ShardingType::kColumnWise)})
                  .ok());
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const KeyedJaggedTensor kjt{.keys = {"r", "c"}, .lengths = {1, 1}, .values = {t * 30, t * 30}};
      const std::vector<float> grads(12, -1.0f);
      for (int i = 0; i < 25; ++i) {
        failed += !client->PushGrad(kjt, Gradients::Pooled(grads)).ok();
        const auto result = client->Lookup(kjt);
        failed += !result.ok() || result->pooled.values()[0] != static_cast<float>(i + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed.load(), 0);
  const std::vector<NodeStats> stats = client->Stats();
  ASSERT_EQ(stats.size(), 2u);
  for (const NodeStats& node : stats) {
    EXPECT_TRUE(node.status.ok()) << node.status;
    EXPECT_EQ(node.version, 100u);
  }
}

TEST(ClientTest, N9_IdsAtTheEdgeOfEveryTable) {
  const testing::TestCluster cluster({1, 1});
  const auto client = cluster.Connect();
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(client->CreateTables({Constant(name, 10, 4, 1.0f, ShardingType::kTableWise)}).ok());
  }
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_TRUE(client->Lookup(KeyedJaggedTensor{.keys = {name}, .lengths = {1}, .values = {9}}).ok());
    const absl::Status bad = client->Lookup(KeyedJaggedTensor{.keys = {name}, .lengths = {1}, .values = {10}}).status();
    EXPECT_EQ(ErrorReason(bad), "ID_OUT_OF_RANGE");
    EXPECT_THAT(std::string(bad.message()), HasSubstr(name));
  }
}

TEST(ClientTest, U8_ProbesTellADeadEndpointFromALiveOne) {
  testing::TestCluster cluster({1, 1});
  const auto client = cluster.Connect();
  EXPECT_EQ(ProbeHealth(cluster.address(0), "", 2000).state, HealthState::kServing);
  EXPECT_EQ(ProbeServer(cluster.address(1), 2000)->node_index, 1);
  cluster.Stop(1);
  const NodeHealth dead = ProbeHealth(cluster.address(1), "", 2000);
  EXPECT_EQ(dead.state, HealthState::kUnreachable);
  EXPECT_FALSE(dead.status.ok());
  EXPECT_FALSE(ProbeServer(cluster.address(1), 2000).ok());
  EXPECT_EQ(client->Health()[1].state, HealthState::kUnreachable);
  EXPECT_TRUE(client->Drain(0).ok());
  EXPECT_EQ(ProbeHealth(cluster.address(0), "", 2000).state, HealthState::kNotServing);
}

TEST(ClientTest, TablesAreUpdatedAndReported) {
  const testing::TestCluster cluster({1, 1});
  const auto client = cluster.Connect();
  TableConfig config = Constant("t", 10, 8, 1.0f, ShardingType::kColumnWise);
  config.spec.optimizer.type = OptimizerType::kRowwiseAdagrad;
  ASSERT_TRUE(client->CreateTables({config}).ok());
  ASSERT_TRUE(client->UpdateTable("t", 0.5f, 41).ok());
  const KeyedJaggedTensor kjt{.keys = {"t"}, .lengths = {1}, .values = {3}};
  ASSERT_TRUE(client->PushGrad(kjt, Gradients::Pooled(std::vector<float>(8, 2.0f))).ok());
  const auto table = client->GetTable("t");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->learning_rate, 0.5f);
  EXPECT_EQ(table->step, 42);
  const auto rows = client->ReadRows("t", {3}, true);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->state0_width, 2);  // one value for each column slice
  EXPECT_THAT(rows->state0, ElementsAre(4.0f, 4.0f));
  const auto plan = client->GetPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tables.size(), 1u);
  EXPECT_EQ(plan->ranks.size(), 2u);
  EXPECT_FALSE(plan->warnings.empty());
}

}  // namespace
}  // namespace embps
