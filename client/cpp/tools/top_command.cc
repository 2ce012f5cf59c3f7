#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/tools/commands.h"
#include "client/cpp/tools/rates.h"
#include "proto/base/status_macros.h"

namespace embps::tools {
namespace {

using Clock = std::chrono::steady_clock;

std::string RateText(double rate) { return absl::StrFormat("%.0f", rate); }

Json RatesJson(const std::vector<NodeRates>& nodes) {
  Json json = {{"nodes", Json::array()}};
  for (const NodeRates& node : nodes) {
    Json tables = Json::array();
    for (const TableRates& table : node.tables) {
      tables.push_back({{"name", table.name},
                        {"lookups_per_s", table.lookups},
                        {"pushes_per_s", table.pushes},
                        {"ids_per_s", table.ids},
                        {"rows_updated_per_s", table.rows_updated}});
    }
    json["nodes"].push_back({{"node", node.node},
                             {"status", StatusJson(node.status)},
                             {"calls_per_s", node.calls},
                             {"failed_calls_per_s", node.failed_calls},
                             {"pushes_per_s", node.pushes},
                             {"ids_per_s", node.ids},
                             {"rows_updated_per_s", node.rows_updated},
                             {"budget_refused_per_s", node.budget_refused},
                             {"budget_used_bytes", node.budget_used_bytes},
                             {"sessions_open", node.sessions_open},
                             {"tables", std::move(tables)}});
  }
  return json;
}

std::string RatesText(const std::vector<NodeRates>& nodes) {
  TextTable summary(
      {"NODE", "STATUS", "CALLS/S", "FAILED/S", "PUSHES/S", "IDS/S", "ROWS/S", "REFUSED/S", "BUDGET USED", "SESSIONS"});
  TextTable tables({"NODE", "TABLE", "LOOKUPS/S", "PUSHES/S", "IDS/S", "ROWS/S"});
  for (const NodeRates& node : nodes) {
    summary.Add({absl::StrCat(node.node), StatusText(node.status), RateText(node.calls), RateText(node.failed_calls),
                 RateText(node.pushes), RateText(node.ids), RateText(node.rows_updated), RateText(node.budget_refused),
                 BytesText(static_cast<double>(node.budget_used_bytes)), absl::StrCat(node.sessions_open)});
    for (const TableRates& table : node.tables) {
      tables.Add({absl::StrCat(node.node), table.name, RateText(table.lookups), RateText(table.pushes),
                  RateText(table.ids), RateText(table.rows_updated)});
    }
  }
  return absl::StrCat(summary.ToString(), "\n", tables.ToString());
}

// False when stopped. Short naps, because a signal handler may not notify a condition variable.
bool WaitUntil(Clock::time_point end, const std::atomic<bool>& stop) {
  constexpr Clock::duration kNap = std::chrono::milliseconds(20);
  while (!stop && Clock::now() < end) std::this_thread::sleep_for(std::min(kNap, end - Clock::now()));
  return !stop;
}

ExitCode ExitCodeOfNodes(const std::vector<NodeStats>& nodes) {
  std::vector<absl::Status> statuses;
  for (const NodeStats& node : nodes) statuses.push_back(node.status);
  return ExitCodeOf(statuses);
}

}  // namespace

absl::StatusOr<ExitCode> RunTop(const Arguments& arguments, std::ostream& out, bool clear_screen,
                                const std::atomic<bool>& stop) {
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  const TopArguments& top = arguments.top;
  std::vector<NodeStats> before = client->Stats();
  Clock::time_point read_at = Clock::now();
  for (int screen = 0; top.count == 0 || screen < top.count; ++screen) {
    if (!WaitUntil(read_at + std::chrono::milliseconds(top.interval_ms), stop)) break;
    std::vector<NodeStats> after = client->Stats();
    const Clock::time_point now = Clock::now();
    const auto rates = RatesBetween(before, after, std::chrono::duration<double>(now - read_at).count());
    if (arguments.globals.format == Format::kJson) {
      out << RatesJson(rates).dump() << "\n";
    } else {
      // Home and clear to the end, so that the screen does not flicker.
      out << (clear_screen ? "\033[H\033[J" : "") << RatesText(rates) << "\n";
    }
    out.flush();
    before = std::move(after);
    read_at = now;
  }
  return ExitCodeOfNodes(before);
}

}  // namespace embps::tools
