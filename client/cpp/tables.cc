// Creating, opening, listing and dropping tables.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/client_impl.h"
#include "client/cpp/control_call.h"
#include "client/cpp/convert.h"
#include "client/cpp/methods.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/table_spec.h"

namespace embps {
inline namespace sdk {
namespace {

// What one CreateTables request may hold.
constexpr size_t kTablesPerRequest = 1024;

const v1::Table* Find(const std::vector<v1::Table>& tables, absl::string_view name) {
  for (const v1::Table& table : tables) {
    if (table.spec().name() == name) return &table;
  }
  return nullptr;
}

plan::TableRequest RequestOf(const TableConfig& config, const v1::TableSpec& spec) {
  plan::TableRequest request;
  request.spec = spec;
  // Unstated: alike per feature, on the scale of a batch of one sample.
  const auto feature_count = static_cast<double>(std::max<size_t>(1, config.features.size()));
  request.ids_per_batch = config.expected_ids_per_batch != 0 ? config.expected_ids_per_batch : feature_count;
  request.node = config.sharding.node;
  request.rank = config.sharding.rank;
  request.column_slices = config.sharding.column_slices;
  return request;
}

absl::Status CheckConfigs(const std::vector<TableConfig>& configs) {
  for (size_t i = 0; i < configs.size(); ++i) {
    for (size_t other = 0; other < i; ++other) {
      if (configs[other].spec.name != configs[i].spec.name) continue;
      return MakeError(Reason::kMalformed, absl::StrCat("table ", configs[i].spec.name, " is configured twice"));
    }
  }
  return absl::OkStatus();
}

// The smallest limit among the ranks; 0 = none has one.
int64_t RankMemoryLimit(client::Cluster& cluster) {
  int64_t limit = 0;
  for (int i = 0; i < cluster.node_count(); ++i) {
    const int64_t own = cluster.node(i).identity().info.memory_limit_bytes;
    if (own > 0 && (limit == 0 || own < limit)) limit = own;
  }
  return limit;
}

RankUse UseOf(const v1::RankUse& use) {
  return {use.node(), use.rank(), use.table_bytes(), use.state_bytes(), use.shard_count()};
}

}  // namespace

absl::StatusOr<ClientImpl::Placing> ClientImpl::PlaceTables(const std::vector<TableConfig>& configs,
                                                            client::TimePoint deadline) {
  EMBPS_RETURN_IF_ERROR(CheckConfigs(configs));
  const std::string& own_namespace = cluster_->options().table_namespace;
  EMBPS_ASSIGN_OR_RETURN(const std::vector<v1::Table> stored, cluster_->ListTables(0, "", deadline));
  const plan::Cluster& cluster = cluster_->catalog()->cluster();
  std::vector<plan::RankLoad> loads(static_cast<size_t>(cluster.rank_count()));
  std::vector<v1::Table> own;
  for (const v1::Table& table : stored) {
    plan::AddLoad(table.spec(), table.placement(), 0, cluster, loads);
    if (plan::NormalizeTableSpec(table.spec()).namespace_() == (own_namespace.empty() ? "default" : own_namespace)) {
      own.push_back(table);
    }
  }
  Placing placing;
  std::vector<plan::TableRequest> requests;
  std::vector<size_t> fresh;
  for (size_t i = 0; i < configs.size(); ++i) {
    placing.specs.push_back(client::ToProto(configs[i].spec, configs[i].sharding.type, own_namespace));
    EMBPS_RETURN_IF_ERROR(plan::ValidateTableSpec(placing.specs[i]));
    const v1::Table* there = Find(own, configs[i].spec.name);
    placing.placements.push_back(there == nullptr ? v1::Placement() : there->placement());
    if (there != nullptr) continue;
    requests.push_back(RequestOf(configs[i], placing.specs[i]));
    fresh.push_back(i);
  }
  plan::PlannerOptions options;
  options.rank_memory_bytes = RankMemoryLimit(*cluster_);
  EMBPS_ASSIGN_OR_RETURN(placing.plan, plan::PlanTables(requests, cluster, loads, options));
  for (size_t i = 0; i < fresh.size(); ++i) placing.placements[fresh[i]] = placing.plan.placements[i];
  return placing;
}

absl::StatusOr<PlanReport> ClientImpl::PlanTables(const std::vector<TableConfig>& configs) {
  EMBPS_ASSIGN_OR_RETURN(const Placing placing, PlaceTables(configs, ControlDeadline()));
  const plan::Cluster& cluster = cluster_->catalog()->cluster();
  PlanReport report;
  for (size_t i = 0; i < configs.size(); ++i) {
    v1::Table table;
    *table.mutable_spec() = placing.specs[i];
    *table.mutable_placement() = placing.placements[i];
    report.tables.push_back(client::FromProto(table));
  }
  for (int q = 0; q < cluster.rank_count(); ++q) {
    const plan::RankId rank = cluster.RankOf(q);
    RankUse use;
    use.node = rank.node;
    use.rank = rank.rank;
    use.table_bytes = placing.plan.loads[static_cast<size_t>(q)].bytes;
    for (const TableInfo& table : report.tables) {
      use.shard_count += std::count_if(table.shards.begin(), table.shards.end(), [&](const Shard& shard) {
        return shard.node == rank.node && shard.rank == rank.rank;
      });
    }
    report.ranks.push_back(use);
  }
  report.warnings = placing.plan.warnings;
  report.explanation = placing.plan.Explain();
  return report;
}

absl::StatusOr<std::vector<v1::Table>> ClientImpl::CreateOn(int node, const std::vector<v1::NewTable>& tables,
                                                            client::TimePoint deadline) {
  std::vector<v1::Table> stored;
  for (size_t begin = 0; begin < tables.size(); begin += kTablesPerRequest) {
    v1::CreateTablesRequest request;
    const size_t end = std::min(tables.size(), begin + kTablesPerRequest);
    for (size_t i = begin; i < end; ++i) *request.add_tables() = tables[i];
    EMBPS_ASSIGN_OR_RETURN(
        const v1::CreateTablesResponse response,
        client::CallControl<v1::CreateTablesResponse>(cluster_->node(node), client::kCreateTables, request, deadline));
    if (response.tables_size() != request.tables_size()) {
      return absl::InternalError(
          absl::StrCat("node ", node, " answered ", response.tables_size(), " of ", request.tables_size(), " tables"));
    }
    for (const v1::CreatedTable& created : response.tables()) stored.push_back(created.table());
  }
  return stored;
}

absl::StatusOr<std::vector<TableInfo>> ClientImpl::CreateTables(const std::vector<TableConfig>& configs) {
  const client::TimePoint deadline = ControlDeadline();
  EMBPS_ASSIGN_OR_RETURN(const Placing placing, PlaceTables(configs, deadline));
  std::vector<v1::NewTable> requests(configs.size());
  for (size_t i = 0; i < configs.size(); ++i) {
    *requests[i].mutable_spec() = placing.specs[i];
    *requests[i].mutable_placement() = placing.placements[i];
  }
  EMBPS_ASSIGN_OR_RETURN(const std::vector<v1::Table> stored, CreateOn(0, requests, deadline));
  // Node 0 has decided: its uids and placements go to the others.
  for (size_t i = 0; i < configs.size(); ++i) {
    *requests[i].mutable_placement() = stored[i].placement();
    requests[i].set_table_uid(stored[i].table_uid());
  }
  for (int node = 1; node < cluster_->node_count(); ++node) {
    EMBPS_RETURN_IF_ERROR(CreateOn(node, requests, deadline).status());
  }
  EMBPS_RETURN_IF_ERROR(Attach(configs, stored));
  std::vector<TableInfo> infos;
  for (const v1::Table& table : stored) infos.push_back(client::FromProto(table));
  return infos;
}

absl::Status ClientImpl::Attach(const std::vector<TableConfig>& configs, const std::vector<v1::Table>& tables) {
  MutexLock lock(&cluster_->catalog_writer());
  EMBPS_ASSIGN_OR_RETURN(auto next, cluster_->catalog()->Attach(configs, tables));
  cluster_->set_catalog(std::move(next));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TableInfo>> ClientImpl::OpenTables(const std::vector<TableConfig>& configs) {
  EMBPS_RETURN_IF_ERROR(CheckConfigs(configs));
  std::vector<v1::Table> stored;
  std::vector<TableInfo> infos;
  for (const TableConfig& config : configs) {
    EMBPS_ASSIGN_OR_RETURN(v1::Table table, GetTable(config.spec.name));
    infos.push_back(client::FromProto(table));
    stored.push_back(std::move(table));
  }
  EMBPS_RETURN_IF_ERROR(Attach(configs, stored));
  return infos;
}

absl::StatusOr<bool> ClientImpl::DropTable(absl::string_view name) {
  const client::TimePoint deadline = ControlDeadline();
  v1::DeleteTableRequest request;
  request.set_namespace_(cluster_->options().table_namespace);
  request.set_name(std::string(name));
  bool existed = false;
  for (int node = 0; node < cluster_->node_count(); ++node) {
    EMBPS_ASSIGN_OR_RETURN(
        const v1::DeleteTableResponse response,
        client::CallControl<v1::DeleteTableResponse>(cluster_->node(node), client::kDeleteTable, request, deadline));
    existed |= response.table_uid() != 0;
  }
  MutexLock lock(&cluster_->catalog_writer());
  cluster_->set_catalog(cluster_->catalog()->Detach(name));
  return existed;
}

absl::StatusOr<v1::Table> ClientImpl::GetTable(absl::string_view name) {
  v1::GetTableRequest request;
  request.set_namespace_(cluster_->options().table_namespace);
  request.set_name(std::string(name));
  EMBPS_ASSIGN_OR_RETURN(
      v1::GetTableResponse response,
      client::CallControl<v1::GetTableResponse>(cluster_->node(0), client::kGetTable, request, ControlDeadline()));
  return std::move(*response.mutable_table());
}

absl::StatusOr<std::vector<TableInfo>> ClientImpl::ListTables() {
  const std::string& own = cluster_->options().table_namespace;
  EMBPS_ASSIGN_OR_RETURN(const std::vector<v1::Table> tables,
                         cluster_->ListTables(0, own.empty() ? "default" : own, ControlDeadline()));
  std::vector<TableInfo> infos;
  for (const v1::Table& table : tables) infos.push_back(client::FromProto(table));
  return infos;
}

// Every node stores all placements, but knows the use of its own ranks only.
absl::StatusOr<PlanReport> ClientImpl::GetPlan() {
  const client::TimePoint deadline = ControlDeadline();
  const std::string& own = cluster_->options().table_namespace;
  v1::GetPlanRequest request;
  request.set_namespace_(own.empty() ? "default" : own);
  PlanReport report;
  std::map<std::pair<int, int>, RankUse> ranks;
  for (int node = 0; node < cluster_->node_count(); ++node) {
    EMBPS_ASSIGN_OR_RETURN(
        const v1::GetPlanResponse response,
        client::CallControl<v1::GetPlanResponse>(cluster_->node(node), client::kGetPlan, request, deadline));
    for (const v1::RankUse& use : response.ranks()) {
      if (use.node() == node) ranks[{use.node(), use.rank()}] = UseOf(use);
    }
    if (node > 0) continue;
    for (const v1::Table& table : response.tables()) report.tables.push_back(client::FromProto(table));
    report.warnings.assign(response.warnings().begin(), response.warnings().end());
  }
  for (const auto& [rank, use] : ranks) report.ranks.push_back(use);
  return report;
}

}  // namespace sdk
}  // namespace embps
