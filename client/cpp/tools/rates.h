// What happened between two readings of the statistics, per second.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "embps/stats.h"

namespace embps::tools {

struct TableRates {
  std::string name;  // namespace/name
  double lookups = 0, pushes = 0, ids = 0, rows_updated = 0;
};

struct NodeRates {
  int node = 0;
  absl::Status status;  // of the later reading
  double calls = 0, failed_calls = 0, pushes = 0, ids = 0, rows_updated = 0, budget_refused = 0;
  uint64_t budget_used_bytes = 0;  // now
  uint64_t sessions_open = 0;      // now
  std::vector<TableRates> tables;
};

// `before` and `after` by node, `seconds` > 0 apart. A node that did not answer before, or whose counters went back (a
// restart), has rates of 0.
std::vector<NodeRates> RatesBetween(const std::vector<NodeStats>& before, const std::vector<NodeStats>& after,
                                    double seconds);

}  // namespace embps::tools
