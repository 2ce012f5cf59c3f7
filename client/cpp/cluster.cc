#include "client/cpp/cluster.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/control_call.h"
#include "client/cpp/convert.h"
#include "client/cpp/methods.h"
#include "embps/v1/embedding.pb.h"
#include "embps/v1/stats.pb.h"
#include "embps/v1/table.pb.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps::client {
namespace {

constexpr size_t kKeptTensorBytes = size_t{256} << 20;
constexpr int kCloseTimeoutMs = 1000;

absl::Status WrongCluster(const std::string& what) { return MakeError(Reason::kWrongCluster, what); }

// That the servers which answered are the nodes 0 .. N-1 of one cluster, each once.
absl::Status CheckMembers(const std::vector<ServerInfo>& infos, const std::string& cluster_id) {
  for (const ServerInfo& info : infos) {
    const std::string& wanted = cluster_id.empty() ? infos[0].cluster_id : cluster_id;
    if (info.cluster_id != wanted) {
      return WrongCluster(
          absl::StrCat(info.endpoint, " belongs to cluster \"", info.cluster_id, "\", not to \"", wanted, "\""));
    }
    if (info.ranks_per_node != infos[0].ranks_per_node) {
      return WrongCluster(absl::StrCat(info.endpoint, " says ranks_per_node [", absl::StrJoin(info.ranks_per_node, ","),
                                       "], ", infos[0].endpoint, " says [", absl::StrJoin(infos[0].ranks_per_node, ","),
                                       "]"));
    }
  }
  const size_t node_count = infos[0].ranks_per_node.size();
  std::vector<std::string> endpoint_of(node_count);
  for (const ServerInfo& info : infos) {
    if (info.node_index < 0 || static_cast<size_t>(info.node_index) >= node_count) {
      return WrongCluster(absl::StrCat(info.endpoint, " says node_index ", info.node_index, " of ", node_count));
    }
    std::string& endpoint = endpoint_of[static_cast<size_t>(info.node_index)];
    if (!endpoint.empty()) {
      return WrongCluster(absl::StrCat(endpoint, " and ", info.endpoint, " both say node_index ", info.node_index));
    }
    endpoint = info.endpoint;
  }
  for (size_t node = 0; node < node_count; ++node) {
    if (!endpoint_of[node].empty()) continue;
    return WrongCluster(
        absl::StrCat("node ", node, " of ", node_count, " is not among the ", infos.size(), " endpoints given"));
  }
  return absl::OkStatus();
}

}  // namespace

Cluster::Cluster(const ClientOptions& options, ClusterParts parts)
    : options_(options),
      parts_(std::move(parts)),
      pool_(kKeptTensorBytes),
      mutations_(std::make_shared<MutationQueue>(options.max_pushes_in_flight)),
      work_thread_(std::make_unique<WorkThread>()) {}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Connect(const ClientOptions& options, ClusterParts parts) {
  EMBPS_RETURN_IF_ERROR(options.Validate());
  std::unique_ptr<Cluster> cluster(new Cluster(options, std::move(parts)));
  EMBPS_RETURN_IF_ERROR(cluster->FindNodes());
  return cluster;
}

absl::Status Cluster::FindNodes() {
  const TimePoint deadline = DeadlineAfter(options_.connect_timeout_ms);
  std::map<std::string, std::shared_ptr<Transport>> transports;
  std::vector<ServerInfo> infos;
  for (const std::string& endpoint : options_.nodes) {
    transports[endpoint] = parts_.transports->Connect(endpoint);
    Node nameless(static_cast<int>(infos.size()), transports[endpoint], parts_.scheduler.get(), options_.retry);
    absl::StatusOr<ServerInfo> info = Identify(nameless, deadline);
    if (!info.ok()) {
      return MakeErrorWithCode(info.status().code(), ReasonOf(info.status()),
                               absl::StrCat(endpoint, ": ", info.status().message()), MetadataOf(info.status()));
    }
    info->endpoint = endpoint;
    infos.push_back(*std::move(info));
  }
  EMBPS_RETURN_IF_ERROR(CheckMembers(infos, options_.cluster_id));
  set_catalog(std::make_shared<Catalog>(plan::Cluster{infos[0].ranks_per_node}));
  std::sort(infos.begin(), infos.end(), [](const auto& a, const auto& b) { return a.node_index < b.node_index; });
  for (ServerInfo& info : infos) {
    nodes_.push_back(
        std::make_unique<Node>(info.node_index, transports[info.endpoint], parts_.scheduler.get(), options_.retry));
    EMBPS_RETURN_IF_ERROR(OpenSession(*nodes_.back(), std::move(info), deadline));
  }
  return absl::OkStatus();
}

Cluster::~Cluster() {
  {
    MutexLock lock(&mu_);
    while (calls_in_flight_ > 0) idle_.Wait(&mu_);
  }
  work_thread_.reset();
  CloseSessions();
}

void Cluster::CloseSessions() {
  const TimePoint deadline = DeadlineAfter(kCloseTimeoutMs);
  for (const std::unique_ptr<Node>& node : nodes_) {
    const std::string session_id = node->identity().session_id;
    if (session_id.empty()) continue;
    v1::CloseSessionRequest request;
    request.set_session_id(session_id);
    // Best effort: a session that stays behind ends by itself.
    (void)CallControl<v1::CloseSessionResponse>(*node, kCloseSession, request, deadline);
  }
}

absl::StatusOr<ServerInfo> Cluster::Identify(Node& node, TimePoint deadline) {
  EMBPS_ASSIGN_OR_RETURN(
      const v1::GetServerInfoResponse response,
      CallControl<v1::GetServerInfoResponse>(node, kGetServerInfo, v1::GetServerInfoRequest(), deadline));
  return FromProto(response);
}

absl::Status Cluster::OpenSession(Node& node, ServerInfo info, TimePoint deadline) {
  v1::OpenSessionRequest request;
  request.set_namespace_(options_.table_namespace);
  request.set_client_name(options_.client_name);
  EMBPS_ASSIGN_OR_RETURN(const v1::OpenSessionResponse response,
                         CallControl<v1::OpenSessionResponse>(node, kOpenSession, request, deadline));
  info.incarnation = response.server_incarnation();
  node.set_identity({std::move(info), response.session_id()});
  return absl::OkStatus();
}

std::shared_ptr<const Catalog> Cluster::catalog() const {
  MutexLock lock(&mu_);
  return catalog_;
}

void Cluster::set_catalog(std::shared_ptr<const Catalog> catalog) {
  MutexLock lock(&mu_);
  catalog_ = std::move(catalog);
}

absl::StatusOr<std::vector<v1::Table>> Cluster::ListTables(int node_index, const std::string& table_namespace,
                                                           TimePoint deadline) {
  v1::ListTablesRequest request;
  request.set_namespace_(table_namespace);
  EMBPS_ASSIGN_OR_RETURN(v1::ListTablesResponse response,
                         CallControl<v1::ListTablesResponse>(node(node_index), kListTables, request, deadline));
  return std::vector<v1::Table>(std::make_move_iterator(response.mutable_tables()->begin()),
                                std::make_move_iterator(response.mutable_tables()->end()));
}

absl::Status Cluster::RefreshCatalog(TimePoint deadline) {
  EMBPS_ASSIGN_OR_RETURN(const std::vector<v1::Table> tables, ListTables(0, options_.table_namespace, deadline));
  MutexLock lock(&catalog_writer_);
  const std::shared_ptr<const Catalog> last = catalog();
  for (const auto& attached : last->tables()) {
    const std::string& name = attached->table.spec().name();
    const bool there =
        std::any_of(tables.begin(), tables.end(), [&](const v1::Table& t) { return t.spec().name() == name; });
    if (!there) {
      return MakeError(Reason::kTableNotFound, absl::StrCat("table ", attached->label, " is gone"),
                       {{"table", attached->label}});
    }
  }
  EMBPS_ASSIGN_OR_RETURN(auto next, last->Refresh(tables));
  set_catalog(std::move(next));
  return absl::OkStatus();
}

absl::Status Cluster::Diagnose(int index, const absl::Status& status, TimePoint deadline) {
  const Reason reason = ReasonOf(status);
  const bool suspicious =
      reason == Reason::kStateRolledBack || reason == Reason::kSessionEnded || reason == Reason::kTableNotFound;
  if (!suspicious) return status;
  const NodeIdentity known = node(index).identity();
  const absl::StatusOr<ServerInfo> now = Identify(node(index), deadline);
  if (!now.ok()) return status;
  if (now->incarnation == known.info.incarnation) {
    if (reason == Reason::kSessionEnded) {
      MutexLock lock(&mu_);
      ended_sessions_.insert(known.session_id);
    }
    return status;
  }
  {
    MutexLock lock(&mu_);
    restarts_.insert(now->incarnation);
  }
  if (reason == Reason::kStateRolledBack) return status;
  return MakeError(Reason::kStateRolledBack,
                   absl::StrCat("node ", index, " restarted: incarnation ", now->incarnation, ", was ",
                                known.info.incarnation, "; its tables and sessions are gone"),
                   {{"node", absl::StrCat(index)}, {"incarnation", absl::StrCat(now->incarnation)}});
}

absl::Status Cluster::Recover(TimePoint deadline) {
  MutexLock lock(&recover_mu_);
  bool restarted = false;
  for (int i = 0; i < node_count(); ++i) {
    const NodeIdentity known = node(i).identity();
    EMBPS_ASSIGN_OR_RETURN(ServerInfo info, Identify(node(i), deadline));
    info.endpoint = known.info.endpoint;
    bool reopen = info.incarnation != known.info.incarnation;
    restarted |= reopen;
    {
      MutexLock state(&mu_);
      if (reopen) restarts_.insert(info.incarnation);
      reopen |= ended_sessions_.erase(known.session_id) > 0;
    }
    if (reopen) EMBPS_RETURN_IF_ERROR(OpenSession(node(i), std::move(info), deadline));
  }
  return restarted ? RestoreTables(deadline) : absl::OkStatus();
}

absl::Status Cluster::RestoreTables(TimePoint deadline) {
  MutexLock lock(&catalog_writer_);
  const std::shared_ptr<const Catalog> last = catalog();
  if (last->tables().empty()) return absl::OkStatus();
  EMBPS_ASSIGN_OR_RETURN(const std::vector<v1::Table> stored, ListTables(0, options_.table_namespace, deadline));
  std::map<std::string, v1::Table> on_first;
  for (const v1::Table& table : stored) on_first.emplace(table.spec().name(), table);
  // What node 0 has binds; what it lost comes back as this client knew it.
  std::vector<v1::Table> wanted;
  for (const auto& attached : last->tables()) {
    const auto found = on_first.find(attached->table.spec().name());
    wanted.push_back(found == on_first.end() ? attached->table : found->second);
  }
  for (int i = 0; i < node_count(); ++i) EMBPS_RETURN_IF_ERROR(RestoreOn(i, wanted, deadline));
  EMBPS_ASSIGN_OR_RETURN(auto next, last->Refresh(wanted));
  set_catalog(std::move(next));
  return absl::OkStatus();
}

absl::Status Cluster::RestoreOn(int index, const std::vector<v1::Table>& wanted, TimePoint deadline) {
  EMBPS_ASSIGN_OR_RETURN(const std::vector<v1::Table> stored, ListTables(index, options_.table_namespace, deadline));
  v1::CreateTablesRequest create;
  for (const v1::Table& table : wanted) {
    const auto same_name = std::find_if(stored.begin(), stored.end(),
                                        [&](const v1::Table& t) { return t.spec().name() == table.spec().name(); });
    if (same_name != stored.end() && same_name->table_uid() == table.table_uid()) continue;
    if (same_name != stored.end()) {  // another creation of the name: what node 0 has binds
      v1::DeleteTableRequest request;
      request.set_namespace_(options_.table_namespace);
      request.set_name(table.spec().name());
      request.set_table_uid(same_name->table_uid());
      EMBPS_RETURN_IF_ERROR(
          CallControl<v1::DeleteTableResponse>(node(index), kDeleteTable, request, deadline).status());
    }
    v1::NewTable* fresh = create.add_tables();
    *fresh->mutable_spec() = table.spec();
    *fresh->mutable_placement() = table.placement();
    fresh->set_table_uid(table.table_uid());
  }
  if (create.tables().empty()) return absl::OkStatus();
  return CallControl<v1::CreateTablesResponse>(node(index), kCreateTables, create, deadline).status();
}

uint64_t Cluster::rollback_count() const {
  MutexLock lock(&mu_);
  return restarts_.size();
}

void Cluster::Enter() {
  MutexLock lock(&mu_);
  ++calls_in_flight_;
}

void Cluster::Leave() {
  MutexLock lock(&mu_);
  if (--calls_in_flight_ == 0) idle_.NotifyAll();
}

}  // namespace embps::client
