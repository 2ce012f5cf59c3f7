// Pushes of integer gradients through transports that lose, delay, repeat and reorder, over connections that break, and
// over the end of sessions: each counts once, so that the rows are exactly the sum.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/cpp/client_impl.h"
#include "client/cpp/grpc_transport.h"
#include "client/cpp/waiter.h"
#include "embps/v1/embedding.grpc.pb.h"
#include "gtest/gtest.h"
#include "proto/base/check.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/faulty_transport.h"
#include "tests/support/test_cluster.h"

namespace embps::testing {
namespace {

constexpr int kNodes = 3;
constexpr int kClients = 8;
constexpr int kPushesAtOnce = 3;  // of one client
constexpr int kMaxSessions = 32;  // of one node; more than the clients and their retries open at once
constexpr int64_t kWideBags = 250;
constexpr uint64_t kSeed = 20'240'501;

struct TestTable {
  const char* name;
  int64_t rows;
  int32_t dim;
  ShardingType type;
};
// Together every push meets several nodes. "wide" rows make a push too large for a unary call to any node.
constexpr TestTable kTables[] = {{"rows", 300, 8, ShardingType::kRowWise},
                                 {"columns", 100, 12, ShardingType::kColumnWise},
                                 {"one", 50, 4, ShardingType::kTableWise},
                                 {"wide", 200, 256, ShardingType::kRowWise}};
constexpr size_t kWide = 3;

std::vector<TableConfig> Configs() {
  std::vector<TableConfig> configs;
  for (const TestTable& table : kTables) {
    TableConfig& config = configs.emplace_back();
    config.spec.name = table.name;
    config.spec.row_count = table.rows;
    config.spec.dim = table.dim;
    config.spec.optimizer.learning_rate = 1.0f;
    config.spec.initializer.kind = InitializerKind::kConstant;
    config.sharding.type = table.type;
    if (table.type == ShardingType::kColumnWise) config.sharding.column_slices = kNodes;
  }
  return configs;
}

// The sum of all gradients, [R, D] of each table.
class Sums {
 public:
  Sums() {
    for (const TestTable& table : kTables) sums_.emplace_back(static_cast<size_t>(table.rows * table.dim));
  }
  int64_t& at(size_t table, int64_t row, int32_t column) {
    return sums_[table][static_cast<size_t>(row * kTables[table].dim + column)];
  }
  void Add(const Sums& other) {
    for (size_t t = 0; t < sums_.size(); ++t) {
      for (size_t i = 0; i < sums_[t].size(); ++i) sums_[t][i] += other.sums_[t][i];
    }
  }

 private:
  std::vector<std::vector<int64_t>> sums_;
};

struct Batch {
  std::vector<size_t> tables;
  KeyedJaggedTensor kjt;
  std::vector<float> gradients;  // [B, sum of D], columns in the order of kTables
};

Batch DrawBatch(std::mt19937_64& random, bool wide) {
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Batch batch;
  for (size_t t = 0; t < kWide && !wide; ++t) {
    if (draw(0, 1) == 1 || (t + 1 == kWide && batch.tables.empty())) batch.tables.push_back(t);
  }
  if (wide) batch.tables = {kWide};
  const int64_t bags = wide ? kWideBags : draw(1, 6);
  int64_t dims = 0;
  for (size_t t : batch.tables) {
    batch.kjt.keys.push_back(kTables[t].name);
    dims += kTables[t].dim;
    for (int64_t b = 0; b < bags; ++b) {
      batch.kjt.lengths.push_back(wide ? 1 : draw(0, 3));
      for (int64_t i = 0; i < batch.kjt.lengths.back(); ++i) {
        batch.kjt.values.push_back(draw(0, kTables[t].rows - 1));
      }
    }
  }
  for (int64_t i = 0; i < bags * dims; ++i) batch.gradients.push_back(static_cast<float>(draw(-4, 4)));
  return batch;
}

void AddTo(const Batch& batch, Sums* sums) {
  int64_t dims = 0;
  for (size_t t : batch.tables) dims += kTables[t].dim;
  const int64_t bags = static_cast<int64_t>(batch.kjt.lengths.size() / batch.tables.size());
  size_t slot = 0, id = 0;
  int64_t column_begin = 0;
  for (size_t t : batch.tables) {
    for (int64_t b = 0; b < bags; ++b, ++slot) {
      for (int64_t i = 0; i < batch.kjt.lengths[slot]; ++i, ++id) {
        for (int32_t c = 0; c < kTables[t].dim; ++c) {
          sums->at(t, batch.kjt.values[id], c) +=
              static_cast<int64_t>(batch.gradients[static_cast<size_t>(b * dims + column_begin + c)]);
        }
      }
    }
    column_begin += kTables[t].dim;
  }
}

// What the clients know of their pushes.
struct Tally {
  int64_t pushes = 0, failed = 0, with_token = 0, streamed = 0, duplicates_seen = 0, retries = 0, sessions_ended = 0;
  std::map<int, uint64_t> applied;  // by node: parts that the node called applied
  std::string first_fault;

  void Take(const PushOutcome& outcome) {
    for (const NodePush& part : outcome.nodes) {
      applied[part.node] += part.status.ok();
      duplicates_seen += part.duplicate;
      retries += std::max(0, part.attempts - 1);
    }
  }
  void Add(const Tally& other) {
    pushes += other.pushes;
    failed += other.failed;
    with_token += other.with_token;
    streamed += other.streamed;
    duplicates_seen += other.duplicates_seen;
    retries += other.retries;
    sessions_ended += other.sessions_ended;
    for (const auto& [node, count] : other.applied) applied[node] += count;
    if (first_fault.empty()) first_fault = other.first_fault;
  }
};

class FaultyCluster {
 public:
  explicit FaultyCluster(bool dedupe)
      : cluster_(std::vector<int64_t>(kNodes, 1), [dedupe](ServerOptions& options) {
          options.dedupe = dedupe;
          options.config.max_unary_bytes = 64 << 10;
          options.config.max_frame_bytes = 64 << 10;
          options.config.max_sessions = kMaxSessions;
        }) {
    direct_ = cluster_.Connect();
    EXPECT_TRUE(direct_->CreateTables(Configs()).ok());
    for (int node = 0; node < kNodes; ++node) {
      FaultProxyOptions options;
      options.seed = kSeed + static_cast<uint64_t>(node);
      proxies_.push_back(std::make_unique<FaultProxy>(cluster_.address(node), options));
    }
    for (int i = 0; i < kClients; ++i) clients_.push_back(ConnectFaulty(static_cast<uint64_t>(i)));
  }

  // Each client makes its share of `pushes`, several at once.
  void Push(int64_t pushes, uint64_t phase) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClients * kPushesAtOnce; ++i) {
      const int64_t share = pushes * (i + 1) / (kClients * kPushesAtOnce) - pushes * i / (kClients * kPushesAtOnce);
      const uint64_t seed = kSeed + 1000 * phase + static_cast<uint64_t>(i);
      threads.emplace_back(
          [this, i, share, seed] { PushShare(*clients_[static_cast<size_t>(i % kClients)], share, seed); });
    }
  }

  // Opens so many sessions that every earlier one is the longest idle one in its turn. All pushes are acknowledged
  // before, so no outcome is lost with them; copies may still be on their way and must not count.
  void EvictSessions() {
    for (int node = 0; node < kNodes; ++node) {
      const auto stub = v1::EmbeddingService::NewStub(
          grpc::CreateChannel(cluster_.address(node), grpc::InsecureChannelCredentials()));
      for (int i = 0; i < kMaxSessions; ++i) {
        grpc::ClientContext context;
        v1::OpenSessionResponse response;
        const grpc::Status status = stub->OpenSession(&context, {}, &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
      }
    }
    for (const auto& client : clients_) Resume(*client);
  }

  // Ends the clients, and with them every copy that is still on its way.
  void Disconnect() { clients_.clear(); }

  int64_t WrongElements() {
    MutexLock lock(&mu_);
    int64_t wrong = 0;
    for (size_t t = 0; t < std::size(kTables); ++t) {
      std::vector<int64_t> ids;
      for (int64_t row = 0; row < kTables[t].rows; ++row) ids.push_back(row);
      const auto rows = direct_->ReadRows(kTables[t].name, ids);
      if (!rows.ok()) {
        ADD_FAILURE() << rows.status();
        return -1;
      }
      for (int64_t row = 0; row < kTables[t].rows; ++row) {
        for (int32_t c = 0; c < kTables[t].dim; ++c) {
          const float value = rows->values[static_cast<size_t>(row * kTables[t].dim + c)];
          wrong += value != -static_cast<float>(sums_.at(t, row, c));
        }
      }
    }
    return wrong;
  }

  std::vector<NodeStats> Stats() { return direct_->Stats(); }
  Tally tally() {
    MutexLock lock(&mu_);
    return tally_;
  }
  const FaultCounts& faults() const { return faults_; }
  int64_t cuts() const {
    int64_t cuts = 0;
    for (const auto& proxy : proxies_) cuts += proxy->cuts();
    return cuts;
  }

 private:
  std::unique_ptr<ClientImpl> ConnectFaulty(uint64_t index) {
    ClientOptions options = cluster_.Options();
    for (size_t node = 0; node < proxies_.size(); ++node) options.nodes[node] = proxies_[node]->address();
    options.client_name = absl::StrCat("faulty-", index);
    options.retry.initial_backoff_ms = 1;
    options.retry.max_backoff_ms = 50;
    options.max_pushes_in_flight = kPushesAtOnce;
    auto grpc = client::NewGrpcTransportFactory({}, &scheduler_);
    auto faulty =
        std::make_shared<FaultyTransportFactory>(std::move(grpc), &scheduler_, FaultRates(), kSeed + index, &faults_);
    // The scheduler outlives the clients.
    auto client = ClientImpl::Connect(options, {{std::shared_ptr<void>(), &scheduler_}, std::move(faulty)});
    if (!client.ok()) std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    EMBPS_CHECK(client.ok());
    EXPECT_TRUE((*client)->OpenTables(Configs()).ok());
    return *std::move(client);
  }

  void PushShare(ClientImpl& client, int64_t share, uint64_t seed) {
    std::mt19937_64 random(seed);
    Tally tally;
    Sums sums;
    for (int64_t i = 0; i < share; ++i) {
      const bool wide = i % 20 == 7;
      const Batch batch = DrawBatch(random, wide);
      PushOptions options;
      if (i % 4 == 3) options.token = TokenOf(client, batch.kjt);
      const PushOutcome outcome = PushOnce(client, batch, options);
      tally.Take(outcome);
      tally.pushes += 1;
      tally.with_token += options.token != nullptr;
      tally.streamed += wide;
      tally.failed += !outcome.ok();
      if (!outcome.ok() && tally.first_fault.empty()) tally.first_fault = outcome.status.ToString();
      if (outcome.ok()) AddTo(batch, &sums);
    }
    MutexLock lock(&mu_);
    tally_.Add(tally);
    sums_.Add(sums);
  }

  static LookupToken TokenOf(ClientImpl& client, const KeyedJaggedTensor& kjt) {
    LookupOptions options;
    options.want_token = true;
    auto waiter = std::make_shared<Waiter<absl::StatusOr<LookupResult>>>();
    client.LookupAsync(kjt, options, [waiter](auto result) { waiter->Set(std::move(result)); });
    const absl::StatusOr<LookupResult> result = waiter->Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->token : nullptr;
  }

  static PushOutcome PushOnce(ClientImpl& client, const Batch& batch, const PushOptions& options) {
    auto waiter = std::make_shared<Waiter<PushOutcome>>();
    client.PushGradAsync(batch.kjt, Gradients::Pooled(batch.gradients), options,
                         [waiter](PushOutcome outcome) { waiter->Set(std::move(outcome)); });
    return waiter->Wait();
  }

  // A push of zeros, which changes nothing, meets the end of the sessions; one Recover opens new ones on every node.
  void Resume(ClientImpl& client) {
    Batch zeros;
    zeros.kjt = {.keys = {"rows"}, .lengths = {1}, .values = {0}};
    zeros.gradients.resize(static_cast<size_t>(kTables[0].dim));
    const PushOutcome refused = PushOnce(client, zeros, {});
    ASSERT_EQ(ErrorReason(refused.status), "SESSION_ENDED");
    const client::TimePoint deadline = client.cluster().DeadlineAfter(client.cluster().options().control_timeout_ms);
    const absl::Status recovered = client.cluster().Recover(deadline);
    ASSERT_TRUE(recovered.ok()) << recovered;
    const PushOutcome outcome = PushOnce(client, zeros, {});
    ASSERT_TRUE(outcome.ok()) << outcome.status;
    MutexLock lock(&mu_);
    tally_.Take(outcome);
    for (const NodePush& part : refused.nodes) tally_.sessions_ended += ErrorReason(part.status) == "SESSION_ENDED";
  }

  TestCluster cluster_;
  std::unique_ptr<Client> direct_;  // past all faults
  std::vector<std::unique_ptr<FaultProxy>> proxies_;
  FaultCounts faults_;
  client::ThreadScheduler scheduler_;
  Mutex mu_;
  Tally tally_ ABSL_GUARDED_BY(mu_);
  Sums sums_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<ClientImpl>> clients_;  // last: gone first
};

void Print(FaultyCluster& cluster, uint64_t suppressed) {
  const Tally tally = cluster.tally();
  const FaultCounts& faults = cluster.faults();
  std::printf(
      "seed %llu: %lld pushes (%lld streamed, %lld with a token), %lld failed, %lld retries, %lld sessions ended\n"
      "requests: %lld dropped, %lld delayed, %lld abandoned, %lld duplicated; %lld copies answered OK\n"
      "replies: %lld lost after the push was applied, %lld delayed, %lld duplicated; connections cut: %lld\n"
      "duplicates suppressed by the servers: %llu; acknowledged as duplicates: %lld\n",
      static_cast<unsigned long long>(kSeed), static_cast<long long>(tally.pushes),
      static_cast<long long>(tally.streamed), static_cast<long long>(tally.with_token),
      static_cast<long long>(tally.failed), static_cast<long long>(tally.retries),
      static_cast<long long>(tally.sessions_ended), static_cast<long long>(faults.requests_dropped),
      static_cast<long long>(faults.requests_delayed), static_cast<long long>(faults.requests_abandoned),
      static_cast<long long>(faults.requests_duplicated), static_cast<long long>(faults.copies_answered),
      static_cast<long long>(faults.push_replies_lost), static_cast<long long>(faults.replies_delayed),
      static_cast<long long>(faults.replies_duplicated), static_cast<long long>(cluster.cuts()),
      static_cast<unsigned long long>(suppressed), static_cast<long long>(tally.duplicates_seen));
}

TEST(FaultExactlyOnceTest, S7_TenThousandPushesCountOnceWhateverIsLostDelayedRepeatedOrCut) {
  constexpr int64_t kPushes = 10'000;
  constexpr uint64_t kPhases = 4;
  FaultyCluster cluster(/*dedupe=*/true);
  for (uint64_t phase = 0; phase < kPhases; ++phase) {
    if (phase > 0) cluster.EvictSessions();
    ASSERT_FALSE(HasFatalFailure());
    cluster.Push(kPushes / kPhases, phase);
  }
  cluster.Disconnect();
  const std::vector<NodeStats> stats = cluster.Stats();
  uint64_t suppressed = 0;
  for (const NodeStats& node : stats) suppressed += node.duplicates_suppressed;
  Print(cluster, suppressed);

  const Tally tally = cluster.tally();
  EXPECT_EQ(tally.failed, 0) << tally.first_fault;
  EXPECT_EQ(tally.pushes, kPushes);
  EXPECT_EQ(cluster.WrongElements(), 0);
  for (const NodeStats& node : stats) {
    ASSERT_TRUE(node.status.ok()) << node.status;
    EXPECT_EQ(node.version, tally.applied.at(node.node)) << "node " << node.node;
  }
  // Otherwise the faults were not what this test is about.
  EXPECT_GE(cluster.faults().push_replies_lost, 500);
  EXPECT_GE(suppressed, 500u);
  EXPECT_GE(cluster.cuts(), 100);
  EXPECT_GE(cluster.faults().requests_dropped, 500);
  EXPECT_GE(cluster.faults().requests_duplicated, 500);
  EXPECT_GE(tally.streamed, 400);
  EXPECT_GE(tally.with_token, 2000);
  EXPECT_EQ(tally.sessions_ended, static_cast<int64_t>((kPhases - 1) * kClients * kNodes));
}

TEST(FaultExactlyOnceTest, TheSameFaultsWithDedupeOffGiveOtherSums) {
  FaultyCluster cluster(/*dedupe=*/false);
  cluster.Push(1000, 0);
  cluster.Disconnect();
  const std::vector<NodeStats> stats = cluster.Stats();
  Print(cluster, 0);
  const Tally tally = cluster.tally();
  EXPECT_EQ(tally.failed, 0) << tally.first_fault;
  const int64_t wrong = cluster.WrongElements();
  std::printf("elements that are not the sum: %lld\n", static_cast<long long>(wrong));
  EXPECT_GT(wrong, 0);
  for (const NodeStats& node : stats) {
    ASSERT_TRUE(node.status.ok()) << node.status;
    EXPECT_GT(node.version, tally.applied.at(node.node)) << "node " << node.node;
  }
}

}  // namespace
}  // namespace embps::testing
