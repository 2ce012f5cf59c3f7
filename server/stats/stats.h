// What a server has done. Counters are relaxed atomics: exact once the writers are quiet, a moment's mixture before.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "server/stats/latency_histogram.h"

namespace embps {

class Counter {
 public:
  void Add(uint64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

enum class CallOutcome {
  kOk,
  kFailed,
  kExpiredBeforeStart,  // dropped while queued: its deadline had passed or its caller was gone
};

class CallCounters {
 public:
  void Record(CallOutcome outcome, std::chrono::nanoseconds latency);

 private:
  friend class Stats;
  Counter ok_, failed_, expired_before_start_;
  LatencyHistogram latency_;  // of ok and failed calls
};

// Of one table on this node. The table's shards hold a reference, so that it outlives a drop while flows run out.
class TableCounters {
 public:
  TableCounters(absl::string_view namespace_name, absl::string_view name, uint64_t table_uid, int rank_count);

  Counter lookups, pushes;  // flows that named the table
  Counter ids_looked_up;
  Counter rows_updated;
  Counter dropped_ids, pruned_ids, dropped_rows;
  Counter rows_overflowed, values_saturated;
  // Ids that the shards of `rank` served, lookups and pushes.
  void AddIdsServed(int rank, uint64_t count);

  const std::string& namespace_name() const { return namespace_name_; }
  const std::string& name() const { return name_; }
  uint64_t table_uid() const { return table_uid_; }

 private:
  friend class Stats;
  const std::string namespace_name_;
  const std::string name_;
  const uint64_t table_uid_;
  std::vector<Counter> ids_per_rank_;  // [W]
};

struct TableSnapshot {
  std::string namespace_name;
  std::string name;
  uint64_t table_uid = 0;
  uint64_t lookups = 0;
  uint64_t pushes = 0;
  uint64_t ids_looked_up = 0;
  uint64_t rows_updated = 0;
  uint64_t dropped_ids = 0;
  uint64_t pruned_ids = 0;
  uint64_t dropped_rows = 0;
  uint64_t rows_overflowed = 0;
  uint64_t values_saturated = 0;
  std::vector<uint64_t> ids_per_rank;  // [W]
};

struct CallSnapshot {
  std::string method;
  uint64_t ok = 0;
  uint64_t failed = 0;
  uint64_t expired_before_start = 0;
  double p50_us = 0;
  double p99_us = 0;
};

struct StatsSnapshot {
  std::vector<TableSnapshot> tables;  // by (namespace, name)
  std::vector<CallSnapshot> calls;    // by method, those that were called
  uint64_t checksum_failures = 0;
  uint64_t budget_refused = 0;
};

// Thread-safe. What other parts count themselves (sessions, budget, collective bytes, version) is read from them.
class Stats {
 public:
  // The counters of a method such as "Lookup", made at the first call; valid as long as this object. Look it up once
  // per handler, not per call.
  CallCounters& call(absl::string_view method);

  // uid must be new. The table appears in snapshots until RemoveTable.
  std::shared_ptr<TableCounters> AddTable(absl::string_view namespace_name, absl::string_view name, uint64_t table_uid,
                                          int rank_count);
  void RemoveTable(uint64_t table_uid);  // no-op when it is not there

  Counter checksum_failures;
  Counter budget_refused;  // calls turned away for want of memory

  StatsSnapshot Snapshot() const;

 private:
  mutable Mutex mu_;
  std::map<std::string, std::unique_ptr<CallCounters>> calls_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<TableCounters>> tables_ ABSL_GUARDED_BY(mu_);  // by uid
};

}  // namespace embps
