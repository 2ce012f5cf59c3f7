// table list|get|create|drop and plan.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/tools/commands.h"
#include "client/cpp/tools/table_file.h"
#include "proto/base/status_macros.h"

namespace embps::tools {
namespace {

std::string NameText(auto value) { return std::string(Name(value)); }

Json OptimizerJson(const OptimizerSpec& optimizer) {
  return {{"type", NameText(optimizer.type)},
          {"learning_rate", FloatJson(optimizer.learning_rate)},
          {"eps", FloatJson(optimizer.eps)},
          {"beta1", FloatJson(optimizer.beta1)},
          {"beta2", FloatJson(optimizer.beta2)},
          {"eta", FloatJson(optimizer.eta)},
          {"momentum", FloatJson(optimizer.momentum)},
          {"weight_decay", FloatJson(optimizer.weight_decay)},
          {"weight_decay_mode", NameText(optimizer.weight_decay_mode)},
          {"max_gradient", FloatJson(optimizer.max_gradient)},
          {"max_norm", FloatJson(optimizer.max_norm)}};
}

Json ShardJson(const Shard& shard) {
  return {{"node", shard.node},
          {"rank", shard.rank},
          {"rows", {shard.row_begin, shard.row_end}},
          {"columns", {shard.column_begin, shard.column_end}}};
}

Json TableJson(const TableInfo& table) {
  const TableSpec& spec = table.spec;
  Json json = {{"namespace", table.table_namespace},
               {"name", spec.name},
               {"table_uid", Hex(table.table_uid)},
               {"placement_version", table.placement_version},
               {"rows", spec.row_count},
               {"dim", spec.dim},
               {"row_type", NameText(spec.row_type)},
               {"id_type", NameText(spec.id_type)},
               {"nearest_rounding", spec.nearest_rounding},
               {"optimizer", OptimizerJson(spec.optimizer)},
               {"initializer",
                {{"kind", NameText(spec.initializer.kind)},
                 {"a", FloatJson(spec.initializer.a)},
                 {"b", FloatJson(spec.initializer.b)},
                 {"seed", spec.initializer.seed}}},
               {"learning_rate", FloatJson(table.learning_rate)},
               {"step", table.step},
               {"sharding", NameText(table.sharding_type)},
               {"shards", Json::array()}};
  for (const Shard& shard : table.shards) json["shards"].push_back(ShardJson(shard));
  return json;
}

std::string TablesText(const std::vector<TableInfo>& tables) {
  TextTable text({"NAME", "ROWS", "DIM", "TYPE", "OPTIMIZER", "LEARNING RATE", "STEP", "SHARDING", "SHARDS", "UID"});
  for (const TableInfo& table : tables) {
    text.Add({absl::StrCat(table.table_namespace, "/", table.spec.name), absl::StrCat(table.spec.row_count),
              absl::StrCat(table.spec.dim), NameText(table.spec.row_type), NameText(table.spec.optimizer.type),
              FloatText(table.learning_rate), absl::StrCat(table.step), NameText(table.sharding_type),
              absl::StrCat(table.shards.size()), Hex(table.table_uid)});
  }
  return text.ToString();
}

std::string ShardsText(const std::vector<TableInfo>& tables) {
  TextTable text({"TABLE", "NODE", "RANK", "ROWS", "COLUMNS"});
  for (const TableInfo& table : tables) {
    for (const Shard& shard : table.shards) {
      text.Add({table.spec.name, absl::StrCat(shard.node), absl::StrCat(shard.rank),
                absl::StrCat("[", shard.row_begin, ", ", shard.row_end, ")"),
                absl::StrCat("[", shard.column_begin, ", ", shard.column_end, ")")});
    }
  }
  return text.ToString();
}

Report ReportTables(const std::vector<TableInfo>& tables) {
  Report report;
  report.json = {{"tables", Json::array()}};
  for (const TableInfo& table : tables) report.json["tables"].push_back(TableJson(table));
  report.text = TablesText(tables);
  return report;
}

Report ReportPlan(const PlanReport& plan, bool explain) {
  Report report = ReportTables(plan.tables);
  TextTable ranks({"NODE", "RANK", "TABLES", "STATE", "SHARDS"});
  report.json["ranks"] = Json::array();
  for (const RankUse& use : plan.ranks) {
    report.json["ranks"].push_back({{"node", use.node},
                                    {"rank", use.rank},
                                    {"table_bytes", use.table_bytes},
                                    {"state_bytes", use.state_bytes},
                                    {"shard_count", use.shard_count}});
    ranks.Add({absl::StrCat(use.node), absl::StrCat(use.rank), BytesText(static_cast<double>(use.table_bytes)),
               BytesText(static_cast<double>(use.state_bytes)), absl::StrCat(use.shard_count)});
  }
  report.json["warnings"] = plan.warnings;
  absl::StrAppend(&report.text, "\n", ranks.ToString());
  if (explain) {
    report.json["explanation"] = plan.explanation;
    absl::StrAppend(&report.text, "\n", ShardsText(plan.tables), plan.explanation.empty() ? "" : "\n",
                    plan.explanation);
  }
  for (const std::string& warning : plan.warnings) absl::StrAppend(&report.text, "warning: ", warning, "\n");
  return report;
}

}  // namespace

absl::StatusOr<Report> RunTableList(const Arguments& arguments) {
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_ASSIGN_OR_RETURN(const std::vector<TableInfo> tables, client->ListTables());
  return ReportTables(tables);
}

absl::StatusOr<Report> RunTableGet(const Arguments& arguments) {
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_ASSIGN_OR_RETURN(const TableInfo table, client->GetTable(arguments.table.name));
  Report report;
  report.json = TableJson(table);
  report.text = absl::StrCat(TablesText({table}), "\n", ShardsText({table}));
  return report;
}

absl::StatusOr<Report> RunTableCreate(const Arguments& arguments) {
  std::vector<TableConfig> configs = {arguments.create.table};
  if (!arguments.create.file.empty()) {
    EMBPS_ASSIGN_OR_RETURN(configs, ReadTableFile(arguments.create.file));
  }
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_ASSIGN_OR_RETURN(const std::vector<TableInfo> tables, client->CreateTables(configs));
  return ReportTables(tables);
}

absl::StatusOr<Report> RunTableDrop(const Arguments& arguments) {
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_ASSIGN_OR_RETURN(const bool dropped, client->DropTable(arguments.table.name));
  if (!dropped && !arguments.table.if_exists) {
    return absl::NotFoundError(
        absl::StrCat("no table '", arguments.globals.table_namespace, "/", arguments.table.name, "'"));
  }
  Report report;
  report.json = {{"name", arguments.table.name}, {"dropped", dropped}};
  report.text = absl::StrCat(dropped ? "dropped " : "there was no ", arguments.table.name, "\n");
  return report;
}

absl::StatusOr<Report> RunPlan(const Arguments& arguments) {
  std::vector<TableConfig> configs;
  if (!arguments.plan.file.empty()) {
    EMBPS_ASSIGN_OR_RETURN(configs, ReadTableFile(arguments.plan.file));
  }
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_ASSIGN_OR_RETURN(const PlanReport plan,
                         arguments.plan.file.empty() ? client->GetPlan() : client->PlanTables(configs));
  return ReportPlan(plan, arguments.plan.explain);
}

}  // namespace embps::tools
