#include "server/flow/stats_flow.h"

#include <chrono>

#include "server/collective/counting.h"
#include "server/env/clock.h"
#include "server/flow/ticket_office.h"
#include "server/session/session_store.h"
#include "server/stats/stats.h"
#include "server/table/shard_store.h"

namespace embps {
namespace {

void AddTable(const TableSnapshot& in, const ShardStore& store, v1::GetStatsResponse& response) {
  v1::TableStats& out = *response.add_tables();
  out.set_namespace_(in.namespace_name);
  out.set_name(in.name);
  out.set_table_uid(in.table_uid);
  out.set_lookups(in.lookups);
  out.set_pushes(in.pushes);
  out.set_ids_looked_up(in.ids_looked_up);
  out.set_rows_updated(in.rows_updated);
  out.set_dropped_ids(in.dropped_ids);
  out.set_pruned_ids(in.pruned_ids);
  out.set_dropped_rows(in.dropped_rows);
  out.set_rows_overflowed(in.rows_overflowed);
  out.set_values_saturated(in.values_saturated);
  if (const auto table = store.FindByUid(in.table_uid); table != nullptr) out.set_step(table->step());
  out.mutable_ids_per_rank()->Add(in.ids_per_rank.begin(), in.ids_per_rank.end());
}

}  // namespace

v1::GetServerInfoResponse GetServerInfo(Core& core, const v1::GetServerInfoRequest& request) {
  const FlowOptions& options = core.options;
  v1::GetServerInfoResponse response;
  response.set_version(options.version);
  response.set_server_incarnation(core.server_incarnation);
  response.set_cluster_id(options.cluster_id);
  response.set_node_index(options.node_index);
  response.set_node_count(static_cast<int32_t>(options.ranks_per_node.size()));
  response.set_rank_count(options.rank_count());
  response.mutable_ranks_per_node()->Add(options.ranks_per_node.begin(), options.ranks_per_node.end());
  response.set_backend(std::string(core.backend->name()));
  response.set_dispatch_target(core.backend->dispatch_target());
  *response.mutable_limits() = options.limits;
  for (const char* capability : {"streaming", "sequence", "lookup_token", "sessions"}) {
    response.add_capabilities(capability);
  }
  response.set_memory_limit_bytes(options.memory_limit_bytes);
  return response;
}

v1::GetStatsResponse GetStats(Core& core, const v1::GetStatsRequest& request) {
  const StatsSnapshot snapshot = core.stats->Snapshot();
  v1::GetStatsResponse response;
  for (const TableSnapshot& table : snapshot.tables) AddTable(table, *core.store, response);
  for (const CallSnapshot& call : snapshot.calls) {
    v1::CallStats& out = *response.add_calls();
    out.set_method(call.method);
    out.set_ok(call.ok);
    out.set_failed(call.failed);
    out.set_expired_before_start(call.expired_before_start);
    out.set_p50_us(call.p50_us);
    out.set_p99_us(call.p99_us);
  }
  response.set_version(core.tickets->version());
  response.set_duplicates_suppressed(core.sessions->duplicates_suppressed());
  response.set_sessions_open(static_cast<uint64_t>(core.sessions->open_count()));
  const auto uptime = std::chrono::duration_cast<std::chrono::milliseconds>(core.clock->Now() - core.started);
  response.set_uptime_ms(static_cast<uint64_t>(uptime.count()));
  if (core.collective_counters != nullptr) response.set_collective_bytes(core.collective_counters->total_bytes());
  response.set_checksum_failures(snapshot.checksum_failures);
  return response;
}

}  // namespace embps
