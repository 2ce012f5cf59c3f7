#include "server/stats/stats.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "proto/base/check.h"

namespace embps {

void CallCounters::Record(CallOutcome outcome, std::chrono::nanoseconds latency) {
  switch (outcome) {
    case CallOutcome::kOk:
      ok_.Add(1);
      break;
    case CallOutcome::kFailed:
      failed_.Add(1);
      break;
    case CallOutcome::kExpiredBeforeStart:
      expired_before_start_.Add(1);
      return;
  }
  latency_.Record(latency);
}

TableCounters::TableCounters(absl::string_view namespace_name, absl::string_view name, uint64_t table_uid,
                             int rank_count)
    : namespace_name_(namespace_name),
      name_(name),
      table_uid_(table_uid),
      ids_per_rank_(static_cast<size_t>(rank_count)) {}

void TableCounters::AddIdsServed(int rank, uint64_t count) { ids_per_rank_.at(static_cast<size_t>(rank)).Add(count); }

CallCounters& Stats::call(absl::string_view method) {
  MutexLock lock(&mu_);
  std::unique_ptr<CallCounters>& counters = calls_[std::string(method)];
  if (counters == nullptr) counters = std::make_unique<CallCounters>();
  return *counters;
}

std::shared_ptr<TableCounters> Stats::AddTable(absl::string_view namespace_name, absl::string_view name,
                                               uint64_t table_uid, int rank_count) {
  auto counters = std::make_shared<TableCounters>(namespace_name, name, table_uid, rank_count);
  MutexLock lock(&mu_);
  const bool added = tables_.emplace(table_uid, counters).second;
  EMBPS_CHECK(added);
  return counters;
}

void Stats::RemoveTable(uint64_t table_uid) {
  MutexLock lock(&mu_);
  tables_.erase(table_uid);
}

StatsSnapshot Stats::Snapshot() const {
  StatsSnapshot snapshot;
  snapshot.checksum_failures = checksum_failures.value();
  snapshot.budget_refused = budget_refused.value();
  MutexLock lock(&mu_);
  for (const auto& [method, call] : calls_) {
    CallSnapshot one{method,
                     call->ok_.value(),
                     call->failed_.value(),
                     call->expired_before_start_.value(),
                     call->latency_.QuantileMicros(0.5),
                     call->latency_.QuantileMicros(0.99)};
    if (one.ok + one.failed + one.expired_before_start > 0) snapshot.calls.push_back(std::move(one));
  }
  for (const auto& [uid, table] : tables_) {
    TableSnapshot one;
    one.namespace_name = table->namespace_name();
    one.name = table->name();
    one.table_uid = uid;
    one.lookups = table->lookups.value();
    one.pushes = table->pushes.value();
    one.ids_looked_up = table->ids_looked_up.value();
    one.rows_updated = table->rows_updated.value();
    one.dropped_ids = table->dropped_ids.value();
    one.pruned_ids = table->pruned_ids.value();
    one.dropped_rows = table->dropped_rows.value();
    one.rows_overflowed = table->rows_overflowed.value();
    one.values_saturated = table->values_saturated.value();
    for (const Counter& served : table->ids_per_rank_) one.ids_per_rank.push_back(served.value());
    snapshot.tables.push_back(std::move(one));
  }
  std::sort(snapshot.tables.begin(), snapshot.tables.end(), [](const TableSnapshot& a, const TableSnapshot& b) {
    return std::tie(a.namespace_name, a.name, a.table_uid) < std::tie(b.namespace_name, b.name, b.table_uid);
  });
  return snapshot;
}

}  // namespace embps
