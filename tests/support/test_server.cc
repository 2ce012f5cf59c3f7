#include "tests/support/test_server.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "proto/base/check.h"
#include "proto/wire/error_details.h"

namespace embps {
namespace {

class GatedCollective final : public Collective {
 public:
  GatedCollective(std::unique_ptr<Collective> inner, LaneGate* gate) : inner_(std::move(inner)), gate_(gate) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  void AllToAll(absl::Span<const SendTransfer> sends, absl::Span<const RecvTransfer> recvs,
                kernels::Stream& stream) override {
    gate_->Pass();
    inner_->AllToAll(sends, recvs, stream);
  }
  void ReduceScatter(absl::Span<const float* const> parts, absl::Span<const int64_t> counts, float* out,
                     kernels::Stream& stream) override {
    gate_->Pass();
    inner_->ReduceScatter(parts, counts, out, stream);
  }
  void AllGather(const void* data, int64_t bytes, absl::Span<const RecvTransfer> recvs,
                 kernels::Stream& stream) override {
    gate_->Pass();
    inner_->AllGather(data, bytes, recvs, stream);
  }

 private:
  const std::unique_ptr<Collective> inner_;
  LaneGate* const gate_;
};

}  // namespace

ServerConfig SmallServerConfig(int ranks) {
  ServerConfig config;
  config.ranks_per_node = {ranks};
  config.listen = {"127.0.0.1:0"};
  config.workers = 2;
  return config;
}

std::unique_ptr<Server> StartServer(ServerOptions options) {
  auto server = Server::Start(std::move(options));
  if (!server.ok()) std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
  EMBPS_CHECK(server.ok());
  return *std::move(server);
}

std::unique_ptr<Server> StartServer(const ServerConfig& config) {
  ServerOptions options;
  options.config = config;
  return StartServer(std::move(options));
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status ToAbsl(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return wire::DecodeError(static_cast<absl::StatusCode>(status.error_code()), status.error_message(),
                           status.error_details());
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t ThreadCount() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word == "Threads:") break;
  }
  int64_t count = 0;
  file >> count;
  return count;
}

StockClient::StockClient(const std::string& address)
    : channel_(NewChannel(address)),
      data_(v1::EmbeddingService::NewStub(channel_)),
      tables_(v1::TableService::NewStub(channel_)),
      stats_(v1::StatsService::NewStub(channel_)),
      admin_(v1::AdminService::NewStub(channel_)) {}

absl::Status StockClient::CreateTable(const std::string& name, int64_t rows, int dim, float value, int ranks) {
  v1::CreateTablesRequest request;
  v1::NewTable& table = *request.add_tables();
  table.mutable_spec()->set_name(name);
  table.mutable_spec()->set_row_count(rows);
  table.mutable_spec()->set_dim(dim);
  table.mutable_spec()->mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_SGD);
  table.mutable_spec()->mutable_optimizer()->set_learning_rate(1.0f);
  table.mutable_spec()->mutable_initializer()->set_kind(v1::INITIALIZER_KIND_CONSTANT);
  table.mutable_spec()->mutable_initializer()->set_a(value);
  v1::Placement& placement = *table.mutable_placement();
  placement.set_sharding_type(ranks == 1 ? v1::SHARDING_TYPE_TABLE_WISE : v1::SHARDING_TYPE_TABLE_ROW_WISE);
  const int64_t block = (rows + ranks - 1) / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    v1::Shard& shard = *placement.add_shards();
    shard.set_rank(rank);
    shard.set_row_begin(std::min(rows, rank * block));
    shard.set_row_end(std::min(rows, (rank + 1) * block));
    shard.set_column_end(dim);
  }
  v1::CreateTablesResponse response;
  CallContext context;
  const absl::Status status = ToAbsl(tables_->CreateTables(&context, request, &response));
  if (status.ok()) table_ = response.tables(0).table();
  return status;
}

absl::Status StockClient::OpenSession() {
  v1::OpenSessionRequest request;
  request.set_client_name("test");
  v1::OpenSessionResponse response;
  CallContext context;
  const absl::Status status = ToAbsl(data_->OpenSession(&context, request, &response));
  session_id_ = response.session_id();
  incarnation_ = response.server_incarnation();
  return status;
}

v1::Feature StockClient::FeatureOf(int64_t bags) const {
  v1::Feature feature;
  feature.set_table_uid(table_.table_uid());
  feature.set_placement_version(table_.placement_version());
  feature.set_batch_size(static_cast<uint32_t>(bags));
  feature.set_pooling(v1::POOLING_SUM);
  feature.set_id_type(v1::ID_TYPE_INT64);
  feature.set_dim(table_.spec().dim());
  return feature;
}

v1::LookupHeader StockClient::LookupHeader(int64_t bags) const {
  v1::LookupHeader header;
  *header.add_features() = FeatureOf(bags);
  header.set_id_count(static_cast<uint64_t>(bags));
  return header;
}

v1::PushGradHeader StockClient::PushHeader(int64_t bags) {
  v1::PushGradHeader header;
  ++sequence_;
  header.mutable_mutation()->set_session_id(session_id_);
  header.mutable_mutation()->set_sequence(sequence_);
  header.mutable_mutation()->set_first_incomplete(sequence_);
  header.mutable_mutation()->set_push_digest(1000 + sequence_);
  *header.add_features() = FeatureOf(bags);
  header.set_id_count(static_cast<uint64_t>(bags));
  header.set_server_incarnation(incarnation_);
  return header;
}

v1::LookupRequest StockClient::LookupOf(const std::vector<int64_t>& ids) const {
  v1::LookupRequest request;
  *request.mutable_header() = LookupHeader(static_cast<int64_t>(ids.size()));
  request.set_lengths(BytesOf(std::vector<int64_t>(ids.size(), 1)));
  request.set_ids(BytesOf(ids));
  return request;
}

v1::PushGradRequest StockClient::PushOf(const std::vector<int64_t>& ids, float gradient) {
  v1::PushGradRequest request;
  *request.mutable_header() = PushHeader(static_cast<int64_t>(ids.size()));
  request.set_lengths(BytesOf(std::vector<int64_t>(ids.size(), 1)));
  request.set_ids(BytesOf(ids));
  request.set_grads(BytesOf(std::vector<float>(ids.size() * static_cast<size_t>(table_.spec().dim()), gradient)));
  return request;
}

absl::Status StockClient::Lookup(const v1::LookupRequest& request, v1::LookupResponse* response,
                                 std::chrono::milliseconds timeout) {
  CallContext context(timeout);
  return ToAbsl(data_->Lookup(&context, request, response));
}

absl::Status StockClient::Push(const v1::PushGradRequest& request, v1::PushGradResponse* response,
                               std::chrono::milliseconds timeout) {
  CallContext context(timeout);
  return ToAbsl(data_->PushGrad(&context, request, response));
}

v1::GetStatsResponse StockClient::Stats() {
  v1::GetStatsResponse response;
  CallContext context;
  const absl::Status status = ToAbsl(stats_->GetStats(&context, v1::GetStatsRequest(), &response));
  EMBPS_CHECK(status.ok());
  return response;
}

v1::CallStats StockClient::StatsOf(const std::string& method) {
  const v1::GetStatsResponse stats = Stats();
  for (const v1::CallStats& call : stats.calls()) {
    if (call.method() == method) return call;
  }
  return {};
}

std::vector<float> FloatsOf(absl::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

void LaneGate::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
}

void LaneGate::Open() {
  MutexLock lock(&mu_);
  closed_ = false;
  changed_.NotifyAll();
}

void LaneGate::Pass() {
  MutexLock lock(&mu_);
  ++held_;
  changed_.NotifyAll();
  while (closed_) changed_.Wait(&mu_);
  --held_;
}

void LaneGate::AwaitHeld(int lanes) {
  MutexLock lock(&mu_);
  while (held_ < lanes) changed_.Wait(&mu_);
}

std::function<std::unique_ptr<Collective>(std::unique_ptr<Collective>)> LaneGate::Decorator() {
  return
      [this](std::unique_ptr<Collective> inner) { return std::make_unique<GatedCollective>(std::move(inner), this); };
}

}  // namespace embps
