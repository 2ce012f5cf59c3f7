// What servers say about themselves; probes that need no connected Client.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace embps {
inline namespace sdk {

struct ServerLimits {
  int64_t max_unary_bytes = 0;    // payload of a unary data call, either way
  int64_t max_frame_bytes = 0;    // payload of one stream frame, either way
  int64_t max_message_bytes = 0;  // gRPC message
  int64_t budget_bytes = 0;       // in flight, all clients together
  int64_t max_ids = 0;
  int64_t max_bags = 0;
  int64_t max_features = 0;
  int64_t stall_timeout_ms = 0;
};

struct ServerInfo {
  std::string endpoint{};  // as the client named it
  std::string version{};
  uint64_t incarnation = 0;  // another after each start
  std::string cluster_id{};
  int node_index = 0;
  int node_count = 0;
  int rank_count = 0;
  std::vector<int> ranks_per_node{};
  std::string backend{};
  std::string dispatch_target{};
  ServerLimits limits{};
  std::vector<std::string> capabilities{};
  int64_t memory_limit_bytes = 0;  // of one rank, 0 = none
};

struct TableStats {
  std::string table_namespace{};
  std::string name{};
  uint64_t table_uid = 0;
  uint64_t lookups = 0, pushes = 0, ids_looked_up = 0, rows_updated = 0;
  uint64_t dropped_ids = 0, pruned_ids = 0, dropped_rows = 0, rows_overflowed = 0, values_saturated = 0;
  int64_t step = 0;
  std::vector<uint64_t> ids_per_rank{};  // of the answering node
};

struct CallStats {
  std::string method{};
  uint64_t ok = 0, failed = 0, expired_before_start = 0;
  double p50_us = 0, p99_us = 0;
};

struct NodeStats {
  int node = 0;
  absl::Status status{};  // not OK: the node did not answer, the rest is empty
  std::vector<TableStats> tables{};
  std::vector<CallStats> calls{};
  uint64_t version = 0;  // pushes applied
  uint64_t duplicates_suppressed = 0, sessions_open = 0, budget_used_bytes = 0, budget_refused = 0, uptime_ms = 0;
  uint64_t collective_bytes = 0, checksum_failures = 0;
};

enum class HealthState { kServing, kNotServing, kUnreachable };
absl::string_view Name(HealthState value);

struct NodeHealth {
  std::string endpoint{};
  HealthState state = HealthState::kUnreachable;
  absl::Status status{};  // why it is kUnreachable
};

// One grpc.health.v1 Check; `service` "" = ready for data, "embps.liveness" = makes progress.
NodeHealth ProbeHealth(const std::string& endpoint, absl::string_view service, int timeout_ms);
absl::StatusOr<ServerInfo> ProbeServer(const std::string& endpoint, int timeout_ms);

}  // namespace sdk
}  // namespace embps
