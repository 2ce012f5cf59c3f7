#include "embps/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/batch_shape.h"
#include "client/cpp/client_impl.h"
#include "client/cpp/control_call.h"
#include "client/cpp/convert.h"
#include "client/cpp/grpc_transport.h"
#include "client/cpp/lookup_op.h"
#include "client/cpp/methods.h"
#include "client/cpp/push_op.h"
#include "client/cpp/row_copy.h"
#include "client/cpp/waiter.h"
#include "embps/v1/admin.pb.h"
#include "embps/v1/stats.pb.h"
#include "proto/base/status_macros.h"

namespace embps {
inline namespace sdk {
namespace {

// Statistics of a dead node should not take a minute to be missed.
constexpr int kStatsTimeoutMs = 5000;

// T f(done) with done(T) -> T. The waiter is shared: the notifying thread may still hold it when the waiting one goes
// on.
template <class T, class Call>
T Await(Call&& call) {
  auto waiter = std::make_shared<Waiter<T>>();
  call([waiter](T value) { waiter->Set(std::move(value)); });
  return waiter->Wait();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientImpl>> ClientImpl::Connect(const ClientOptions& options,
                                                                client::ClusterParts parts) {
  EMBPS_ASSIGN_OR_RETURN(auto cluster, client::Cluster::Connect(options, std::move(parts)));
  return std::make_unique<ClientImpl>(std::move(cluster));
}

void ClientImpl::LookupAsync(const KjtView& kjt, const LookupOptions& options,
                             std::function<void(absl::StatusOr<LookupResult>)> done) {
  cluster_->Enter();
  std::make_shared<client::LookupOp>(
      cluster_.get(), kjt, options,
      [cluster = cluster_.get(), done = std::move(done)](absl::StatusOr<LookupResult> result) {
        done(std::move(result));
        cluster->Leave();
      })
      ->Start();
}

void ClientImpl::PushGradAsync(const KjtView& kjt, const Gradients& gradients, const PushOptions& options,
                               std::function<void(PushOutcome)> done) {
  cluster_->Enter();
  std::make_shared<client::PushOp>(cluster_.get(), client::PushInput{kjt, gradients, options}, options.timeout_ms,
                                   [cluster = cluster_.get(), done = std::move(done)](PushOutcome outcome) {
                                     done(std::move(outcome));
                                     cluster->Leave();
                                   })
      ->Start();
}

void ClientImpl::ReplayAsync(const PushOutcome& outcome, int timeout_ms, std::function<void(PushOutcome)> done) {
  if (outcome.replay == nullptr) return done(outcome);
  const bool foreign = outcome.replay->queue != cluster_->mutations();
  if (foreign || outcome.replay->busy.exchange(true)) {
    PushOutcome refused = outcome;
    refused.status = absl::FailedPreconditionError(foreign ? "this push was made by another client"
                                                           : "this push is being replayed already");
    return done(std::move(refused));
  }
  cluster_->Enter();
  std::make_shared<client::PushOp>(cluster_.get(), outcome.replay, timeout_ms,
                                   [cluster = cluster_.get(), done = std::move(done)](PushOutcome replayed) {
                                     done(std::move(replayed));
                                     cluster->Leave();
                                   })
      ->Start();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  EMBPS_RETURN_IF_ERROR(options.Validate());
  if (options.tune_malloc) client::TuneMallocOnce();
  client::ClusterParts parts;
  parts.scheduler = std::make_shared<client::ThreadScheduler>();
  client::GrpcOptions grpc;
  grpc.channels = options.channels_per_node;
  grpc.keepalive_ms = options.keepalive_ms;
  grpc.keepalive_timeout_ms = options.keepalive_timeout_ms;
  parts.transports = client::NewGrpcTransportFactory(grpc, parts.scheduler.get());
  EMBPS_ASSIGN_OR_RETURN(auto impl, ClientImpl::Connect(options, std::move(parts)));
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::unique_ptr<ClientImpl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::vector<TableInfo>> Client::CreateTables(const std::vector<TableConfig>& configs) {
  return impl_->CreateTables(configs);
}
absl::StatusOr<PlanReport> Client::PlanTables(const std::vector<TableConfig>& configs) {
  return impl_->PlanTables(configs);
}
absl::StatusOr<std::vector<TableInfo>> Client::OpenTables(const std::vector<TableConfig>& configs) {
  return impl_->OpenTables(configs);
}
absl::StatusOr<bool> Client::DropTable(absl::string_view name) { return impl_->DropTable(name); }
absl::StatusOr<TableInfo> Client::GetTable(absl::string_view name) {
  EMBPS_ASSIGN_OR_RETURN(const v1::Table table, impl_->GetTable(name));
  return client::FromProto(table);
}
absl::StatusOr<std::vector<TableInfo>> Client::ListTables() { return impl_->ListTables(); }
absl::Status Client::UpdateTable(absl::string_view name, std::optional<float> learning_rate,
                                 std::optional<int64_t> step) {
  return impl_->UpdateTable(name, learning_rate, step);
}
absl::StatusOr<TableRows> Client::ReadRows(absl::string_view table, absl::Span<const int64_t> ids, bool with_state) {
  return impl_->ReadRows(table, ids, with_state);
}
absl::Status Client::WriteRows(absl::string_view table, const TableRows& rows) { return impl_->WriteRows(table, rows); }
absl::StatusOr<PlanReport> Client::GetPlan() { return impl_->GetPlan(); }

void Client::LookupAsync(const KjtView& kjt, const LookupOptions& options,
                         std::function<void(absl::StatusOr<LookupResult>)> done) {
  impl_->LookupAsync(kjt, options, std::move(done));
}

absl::StatusOr<LookupResult> Client::Lookup(const KjtView& kjt, const LookupOptions& options) {
  return Await<absl::StatusOr<LookupResult>>([&](auto done) { impl_->LookupAsync(kjt, options, std::move(done)); });
}

absl::StatusOr<int64_t> Client::PooledBytes(const KjtView& kjt, DataType output_dtype) {
  EMBPS_ASSIGN_OR_RETURN(const client::BatchShape shape, client::ShapeBatch(impl_->cluster().catalog(), kjt));
  return shape.pooled.element_count * client::ItemBytes(output_dtype);
}

void Client::PushGradAsync(const KjtView& kjt, const Gradients& gradients, const PushOptions& options,
                           std::function<void(PushOutcome)> done) {
  impl_->PushGradAsync(kjt, gradients, options, std::move(done));
}

PushOutcome Client::PushGrad(const KjtView& kjt, const Gradients& gradients, const PushOptions& options) {
  return Await<PushOutcome>([&](auto done) { impl_->PushGradAsync(kjt, gradients, options, std::move(done)); });
}

PushOutcome Client::ReplayPush(const PushOutcome& outcome, int timeout_ms) {
  return Await<PushOutcome>([&](auto done) { impl_->ReplayAsync(outcome, timeout_ms, std::move(done)); });
}

std::vector<ServerInfo> Client::servers() const {
  std::vector<ServerInfo> servers;
  for (int i = 0; i < impl_->cluster().node_count(); ++i) servers.push_back(impl_->cluster().node(i).identity().info);
  return servers;
}

absl::StatusOr<std::vector<ServerInfo>> Client::GetServerInfo() {
  client::Cluster& cluster = impl_->cluster();
  const client::TimePoint deadline = cluster.DeadlineAfter(cluster.options().control_timeout_ms);
  std::vector<ServerInfo> servers;
  for (int i = 0; i < cluster.node_count(); ++i) {
    EMBPS_ASSIGN_OR_RETURN(const v1::GetServerInfoResponse response,
                           client::CallControl<v1::GetServerInfoResponse>(cluster.node(i), client::kGetServerInfo,
                                                                          v1::GetServerInfoRequest(), deadline));
    servers.push_back(client::FromProto(response));
    servers.back().endpoint = cluster.node(i).identity().info.endpoint;
  }
  return servers;
}

std::vector<NodeStats> Client::Stats() {
  client::Cluster& cluster = impl_->cluster();
  std::vector<NodeStats> stats;
  for (int i = 0; i < cluster.node_count(); ++i) {
    const absl::StatusOr<v1::GetStatsResponse> response = client::CallControl<v1::GetStatsResponse>(
        cluster.node(i), client::kGetStats, v1::GetStatsRequest(), cluster.DeadlineAfter(kStatsTimeoutMs));
    if (response.ok())
      stats.push_back(client::FromProto(*response));
    else
      stats.emplace_back();
    stats.back().node = i;
    stats.back().status = response.status();
  }
  return stats;
}

std::vector<NodeHealth> Client::Health() {
  std::vector<NodeHealth> health;
  for (const ServerInfo& server : servers()) health.push_back(ProbeHealth(server.endpoint, "", kStatsTimeoutMs));
  return health;
}

absl::Status Client::Drain(int node) {
  client::Cluster& cluster = impl_->cluster();
  if (node < 0 || node >= cluster.node_count()) {
    return absl::InvalidArgumentError(absl::StrCat("node ", node, " of ", cluster.node_count()));
  }
  return client::CallControl<v1::DrainResponse>(cluster.node(node), client::kDrain, v1::DrainRequest(),
                                                cluster.DeadlineAfter(cluster.options().control_timeout_ms))
      .status();
}

absl::Status Client::Recover() {
  client::Cluster& cluster = impl_->cluster();
  return cluster.Recover(cluster.DeadlineAfter(cluster.options().control_timeout_ms));
}

uint64_t Client::rollback_count() const { return impl_->cluster().rollback_count(); }

}  // namespace sdk
}  // namespace embps
