// health, info, stats: one answer per node.
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cpp/tools/commands.h"
#include "proto/base/status_macros.h"

namespace embps::tools {
namespace {

// ask(endpoint) for every endpoint at once: a dead node costs the time-out once.
template <typename Ask>
auto AskEvery(const std::vector<std::string>& endpoints, Ask ask) {
  using Answer = std::decay_t<decltype(ask(endpoints.front()))>;
  std::vector<std::optional<Answer>> answers(endpoints.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < endpoints.size(); ++i) {
      threads.emplace_back([&, i] { answers[i].emplace(ask(endpoints[i])); });
    }
  }
  std::vector<Answer> all;
  for (auto& answer : answers) all.push_back(*std::move(answer));
  return all;
}

Json LimitsJson(const ServerLimits& limits) {
  return {{"max_unary_bytes", limits.max_unary_bytes},
          {"max_frame_bytes", limits.max_frame_bytes},
          {"max_message_bytes", limits.max_message_bytes},
          {"budget_bytes", limits.budget_bytes},
          {"max_ids", limits.max_ids},
          {"max_bags", limits.max_bags},
          {"max_features", limits.max_features},
          {"stall_timeout_ms", limits.stall_timeout_ms}};
}

Json InfoJson(const ServerInfo& info) {
  return {{"endpoint", info.endpoint},
          {"status", StatusJson(absl::OkStatus())},
          {"version", info.version},
          {"incarnation", Hex(info.incarnation)},
          {"cluster_id", info.cluster_id},
          {"node_index", info.node_index},
          {"node_count", info.node_count},
          {"rank_count", info.rank_count},
          {"ranks_per_node", info.ranks_per_node},
          {"backend", info.backend},
          {"dispatch_target", info.dispatch_target},
          {"limits", LimitsJson(info.limits)},
          {"capabilities", info.capabilities},
          {"memory_limit_bytes", info.memory_limit_bytes}};
}

Json TableStatsJson(const TableStats& table) {
  return {{"namespace", table.table_namespace},
          {"name", table.name},
          {"table_uid", Hex(table.table_uid)},
          {"lookups", table.lookups},
          {"pushes", table.pushes},
          {"ids_looked_up", table.ids_looked_up},
          {"rows_updated", table.rows_updated},
          {"dropped_ids", table.dropped_ids},
          {"pruned_ids", table.pruned_ids},
          {"dropped_rows", table.dropped_rows},
          {"rows_overflowed", table.rows_overflowed},
          {"values_saturated", table.values_saturated},
          {"step", table.step},
          {"ids_per_rank", table.ids_per_rank}};
}

Json CallStatsJson(const CallStats& call) {
  return {{"method", call.method}, {"ok", call.ok},
          {"failed", call.failed}, {"expired_before_start", call.expired_before_start},
          {"p50_us", call.p50_us}, {"p99_us", call.p99_us}};
}

Json NodeStatsJson(const NodeStats& node) {
  Json json = {{"node", node.node}, {"status", StatusJson(node.status)}};
  if (!node.status.ok()) return json;
  json["version"] = node.version;
  json["uptime_ms"] = node.uptime_ms;
  json["sessions_open"] = node.sessions_open;
  json["duplicates_suppressed"] = node.duplicates_suppressed;
  json["budget_used_bytes"] = node.budget_used_bytes;
  json["budget_refused"] = node.budget_refused;
  json["collective_bytes"] = node.collective_bytes;
  json["checksum_failures"] = node.checksum_failures;
  json["tables"] = Json::array();
  for (const TableStats& table : node.tables) json["tables"].push_back(TableStatsJson(table));
  json["calls"] = Json::array();
  for (const CallStats& call : node.calls) json["calls"].push_back(CallStatsJson(call));
  return json;
}

std::string StatsText(const std::vector<NodeStats>& nodes) {
  TextTable summary({"NODE", "STATUS", "PUSHES", "SESSIONS", "DUPLICATES", "BUDGET USED", "REFUSED", "UPTIME S"});
  TextTable tables({"NODE", "TABLE", "STEP", "LOOKUPS", "PUSHES", "IDS", "ROWS UPDATED", "DROPPED", "IDS PER RANK"});
  TextTable calls({"NODE", "METHOD", "OK", "FAILED", "EXPIRED", "P50 US", "P99 US"});
  for (const NodeStats& node : nodes) {
    const std::string index = absl::StrCat(node.node);
    if (!node.status.ok()) {
      summary.Add({index, StatusText(node.status), "-", "-", "-", "-", "-", "-"});
      continue;
    }
    summary.Add({index, "OK", absl::StrCat(node.version), absl::StrCat(node.sessions_open),
                 absl::StrCat(node.duplicates_suppressed), BytesText(static_cast<double>(node.budget_used_bytes)),
                 absl::StrCat(node.budget_refused), absl::StrCat(node.uptime_ms / 1000)});
    for (const TableStats& table : node.tables) {
      tables.Add({index, absl::StrCat(table.table_namespace, "/", table.name), absl::StrCat(table.step),
                  absl::StrCat(table.lookups), absl::StrCat(table.pushes), absl::StrCat(table.ids_looked_up),
                  absl::StrCat(table.rows_updated), absl::StrCat(table.dropped_ids + table.pruned_ids),
                  absl::StrJoin(table.ids_per_rank, " ")});
    }
    for (const CallStats& call : node.calls) {
      calls.Add({index, call.method, absl::StrCat(call.ok), absl::StrCat(call.failed),
                 absl::StrCat(call.expired_before_start), absl::StrFormat("%.0f", call.p50_us),
                 absl::StrFormat("%.0f", call.p99_us)});
    }
  }
  return absl::StrCat(summary.ToString(), "\n", tables.ToString(), "\n", calls.ToString());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const GlobalArguments& globals) {
  ClientOptions options;
  options.nodes = globals.nodes;
  options.cluster_id = globals.cluster_id;
  options.table_namespace = globals.table_namespace;
  options.client_name = "embpsctl";
  options.connect_timeout_ms = globals.timeout_ms;
  options.lookup_timeout_ms = globals.timeout_ms;
  options.push_timeout_ms = globals.timeout_ms;
  options.control_timeout_ms = globals.timeout_ms;
  return Client::Connect(options);
}

absl::StatusOr<Report> RunHealth(const Arguments& arguments) {
  const GlobalArguments& globals = arguments.globals;
  const std::vector<NodeHealth> nodes = AskEvery(globals.nodes, [&](const std::string& endpoint) {
    return ProbeHealth(endpoint, arguments.health.service, globals.timeout_ms);
  });
  Report report;
  report.exit_code = ExitCodeOf(nodes);
  report.json = {{"healthy", report.exit_code == ExitCode::kOk}, {"nodes", Json::array()}};
  TextTable table({"ENDPOINT", "HEALTH", "DETAIL"});
  for (const NodeHealth& node : nodes) {
    const std::string state(Name(node.state));
    report.json["nodes"].push_back(
        {{"endpoint", node.endpoint}, {"health", state}, {"status", StatusJson(node.status)}});
    table.Add({node.endpoint, state, node.status.ok() ? "" : StatusText(node.status)});
  }
  report.text = table.ToString();
  return report;
}

absl::StatusOr<Report> RunInfo(const Arguments& arguments) {
  const GlobalArguments& globals = arguments.globals;
  const auto nodes =
      AskEvery(globals.nodes, [&](const std::string& endpoint) { return ProbeServer(endpoint, globals.timeout_ms); });
  Report report;
  report.json = {{"nodes", Json::array()}};
  TextTable table({"ENDPOINT", "NODE", "CLUSTER", "VERSION", "INCARNATION", "RANKS", "BACKEND", "DISPATCH", "DETAIL"});
  std::vector<absl::Status> statuses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    statuses.push_back(nodes[i].status());
    if (!nodes[i].ok()) {
      report.json["nodes"].push_back({{"endpoint", globals.nodes[i]}, {"status", StatusJson(nodes[i].status())}});
      table.Add({globals.nodes[i], "-", "-", "-", "-", "-", "-", "-", StatusText(nodes[i].status())});
      continue;
    }
    const ServerInfo& info = *nodes[i];
    report.json["nodes"].push_back(InfoJson(info));
    table.Add({info.endpoint, absl::StrCat(info.node_index, " of ", info.node_count), info.cluster_id, info.version,
               Hex(info.incarnation), absl::StrCat(info.rank_count), info.backend, info.dispatch_target, ""});
  }
  report.exit_code = ExitCodeOf(statuses);
  report.text = table.ToString();
  return report;
}

absl::StatusOr<Report> RunStats(const Arguments& arguments) {
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  const std::vector<NodeStats> nodes = client->Stats();
  Report report;
  report.json = {{"nodes", Json::array()}};
  std::vector<absl::Status> statuses;
  for (const NodeStats& node : nodes) {
    statuses.push_back(node.status);
    report.json["nodes"].push_back(NodeStatsJson(node));
  }
  report.exit_code = ExitCodeOf(statuses);
  report.text = StatsText(nodes);
  return report;
}

}  // namespace embps::tools
