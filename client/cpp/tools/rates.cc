#include "client/cpp/tools/rates.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace embps::tools {
namespace {

class Rate {
 public:
  explicit Rate(double seconds) : seconds_(seconds) {}
  double operator()(uint64_t before, uint64_t after) const {
    return after > before ? static_cast<double>(after - before) / seconds_ : 0;
  }

 private:
  const double seconds_;
};

TableRates RatesOf(const TableStats& before, const TableStats& after, const Rate& rate) {
  return {absl::StrCat(after.table_namespace, "/", after.name), rate(before.lookups, after.lookups),
          rate(before.pushes, after.pushes), rate(before.ids_looked_up, after.ids_looked_up),
          rate(before.rows_updated, after.rows_updated)};
}

NodeRates RatesOf(const NodeStats& before, const NodeStats& after, const Rate& rate) {
  NodeRates rates;
  rates.node = after.node;
  rates.status = after.status;
  rates.budget_used_bytes = after.budget_used_bytes;
  rates.sessions_open = after.sessions_open;
  if (!before.status.ok() || !after.status.ok() || after.uptime_ms < before.uptime_ms) return rates;
  rates.pushes = rate(before.version, after.version);
  rates.budget_refused = rate(before.budget_refused, after.budget_refused);
  for (const CallStats& call : after.calls) {
    const auto same = [&](const CallStats& other) { return other.method == call.method; };
    const auto found = std::ranges::find_if(before.calls, same);
    const CallStats earlier = found == before.calls.end() ? CallStats{} : *found;
    rates.calls += rate(earlier.ok + earlier.failed, call.ok + call.failed);
    rates.failed_calls += rate(earlier.failed, call.failed);
  }
  for (const TableStats& table : after.tables) {
    const auto same = [&](const TableStats& other) { return other.table_uid == table.table_uid; };
    const auto found = std::ranges::find_if(before.tables, same);
    rates.tables.push_back(RatesOf(found == before.tables.end() ? TableStats{} : *found, table, rate));
    rates.ids += rates.tables.back().ids;
    rates.rows_updated += rates.tables.back().rows_updated;
  }
  return rates;
}

}  // namespace

std::vector<NodeRates> RatesBetween(const std::vector<NodeStats>& before, const std::vector<NodeStats>& after,
                                    double seconds) {
  const Rate rate(seconds);
  std::vector<NodeRates> rates;
  for (const NodeStats& node : after) {
    const auto same = [&](const NodeStats& other) { return other.node == node.node; };
    const auto found = std::ranges::find_if(before, same);
    NodeStats silent;
    silent.status = absl::UnavailableError("not read before");
    rates.push_back(RatesOf(found == before.end() ? silent : *found, node, rate));
  }
  return rates;
}

}  // namespace embps::tools
