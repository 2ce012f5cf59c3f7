#include "server/config/server_config.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace embps {
namespace {

// gRPC's stock receive limit; the rest of a message is header and framing.
constexpr int64_t kLargestPayload = (int64_t{4} << 20) - (int64_t{64} << 10);
constexpr int64_t kMaxRanks = 64;
constexpr int64_t kMaxNodes = 1024;

class Faults {
 public:
  void Add(std::string fault) { faults_.push_back(std::move(fault)); }
  void Range(absl::string_view key, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) Add(absl::StrCat(key, " is ", value, ", must be ", low, " to ", high));
  }
  absl::Status status() const {
    if (faults_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(faults_, "\n"));
  }

 private:
  std::vector<std::string> faults_;
};

void CheckCluster(const ServerConfig& config, Faults& faults) {
  if (config.cluster_id.empty() || config.cluster_id.size() > 128) {
    faults.Add(absl::StrCat("cluster_id has ", config.cluster_id.size(), " bytes, must have 1 to 128"));
  }
  const auto nodes = static_cast<int64_t>(config.ranks_per_node.size());
  faults.Range("number of entries of ranks_per_node", nodes, 1, kMaxNodes);
  for (const int64_t ranks : config.ranks_per_node) faults.Range("entry of ranks_per_node", ranks, 1, kMaxRanks);
  if (config.node_index < 0 || config.node_index >= nodes) {
    faults.Add(absl::StrCat("node_index is ", config.node_index, ", but ranks_per_node has ", nodes, " nodes"));
  }
}

void CheckAddresses(const ServerConfig& config, Faults& faults) {
  if (config.listen.empty()) faults.Add("listen is empty, must have an address");
  for (const std::string& address : config.listen) {
    if (absl::StartsWith(address, "unix:")) {
      if (address.size() == 5) faults.Add("listen address 'unix:' has no path");
      continue;
    }
    const size_t colon = address.rfind(':');
    int port = -1;
    const bool numeric = colon != std::string::npos && absl::SimpleAtoi(address.substr(colon + 1), &port);
    if (colon == 0 || !numeric || port < 0 || port > 65535) {
      faults.Add(absl::StrCat("listen address '", address, "' is neither HOST:PORT nor unix:PATH"));
    }
  }
}

void CheckLimits(const ServerConfig& config, Faults& faults) {
  constexpr int64_t kHuge = int64_t{1} << 50;
  faults.Range("workers", config.workers, 0, 1024);
  faults.Range("table_memory_limit_bytes", config.table_memory_limit_bytes, 0, kHuge);
  faults.Range("max_unary_bytes", config.max_unary_bytes, 64 << 10, kLargestPayload);
  faults.Range("max_frame_bytes", config.max_frame_bytes, 64 << 10, kLargestPayload);
  faults.Range("max_ids", config.max_ids, 1, int64_t{1} << 40);
  faults.Range("max_bags", config.max_bags, 1, int64_t{1} << 40);
  faults.Range("max_features", config.max_features, 1, 4096);
  faults.Range("budget_bytes", config.budget_bytes, int64_t{4} << 20, kHuge);
  faults.Range("max_waiting_calls", config.max_waiting_calls, 0, 1 << 20);
  faults.Range("max_running_calls", config.max_running_calls, 1, 1 << 20);
  faults.Range("max_connections", config.max_connections, 1, 1 << 20);
  faults.Range("max_streams_per_connection", config.max_streams_per_connection, 1, 1 << 20);
  faults.Range("max_sessions", config.max_sessions, 1, 1 << 20);
  faults.Range("session_window_entries", config.session_window_entries, 1, 1 << 20);
  faults.Range("session_window_bytes", config.session_window_bytes, 4 << 10, kHuge);
  faults.Range("lookup_token_bytes", config.lookup_token_bytes, 0, kHuge);
  faults.Range("collective_chunk_bytes", config.collective_chunk_bytes, 4, kHuge);
}

void CheckTimes(const ServerConfig& config, Faults& faults) {
  constexpr int64_t kWeekMs = int64_t{7} * 24 * 3'600'000;
  faults.Range("session_idle_timeout_ms", config.session_idle_timeout_ms, 1, kWeekMs);
  faults.Range("lookup_token_timeout_ms", config.lookup_token_timeout_ms, 1, kWeekMs);
  faults.Range("stall_timeout_ms", config.stall_timeout_ms, 10, kWeekMs);
  faults.Range("drain_timeout_ms", config.drain_timeout_ms, 0, kWeekMs);
  faults.Range("step_timeout_ms", config.step_timeout_ms, 1, kWeekMs);
  faults.Range("liveness_timeout_ms", config.liveness_timeout_ms, 1, kWeekMs);
}

}  // namespace

absl::Status ServerConfig::Validate() const {
  Faults faults;
  CheckCluster(*this, faults);
  CheckAddresses(*this, faults);
  CheckLimits(*this, faults);
  CheckTimes(*this, faults);
  if (backend != "cpu") {
    faults.Add(absl::StrCat("backend '", backend, "' is not part of this build, which has: cpu"));
  }
  constexpr auto kLevels = std::to_array<absl::string_view>({"debug", "info", "warning", "error"});
  if (std::ranges::find(kLevels, absl::string_view(log_level)) == kLevels.end()) {
    faults.Add(absl::StrCat("log_level is '", log_level, "', must be debug, info, warning or error"));
  }
  return faults.status();
}

}  // namespace embps
