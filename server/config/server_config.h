// Everything an operator can set on a shard server. Keys of the YAML file and names of the command line flags are the
// field names below; config_keys.cc pairs them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace embps {

struct ServerConfig {
  // Who this node is. All nodes of a cluster have equal cluster_id and ranks_per_node; node_index differs.
  std::string cluster_id = "default";                    // 1 to 128 bytes; a client refuses nodes that disagree
  int64_t node_index = 0;                                // [0, number of nodes)
  std::vector<int64_t> ranks_per_node = {1};             // ranks of every node of the cluster, each 1 to 64
  std::vector<std::string> listen = {"127.0.0.1:7737"};  // HOST:PORT (port 0 = any free one) or unix:PATH

  // What it computes with.
  std::string backend = "cpu";
  int64_t workers = 0;                   // cores that kernels use together; 0 = all
  int64_t table_memory_limit_bytes = 0;  // rows and optimizer state of one rank; 0 = no limit

  // Limits of calls, advertised by GetServerInfo; they hold in both directions.
  int64_t max_unary_bytes = int64_t{2} << 20;  // payload of a unary data call; more is streamed
  int64_t max_frame_bytes = int64_t{1} << 20;  // payload of one stream frame
  int64_t max_ids = int64_t{1} << 27;          // of one call
  int64_t max_bags = int64_t{1} << 24;         // of one call
  int64_t max_features = 4096;                 // of one call

  // Overload. Requests and replies of all clients together stay within budget_bytes; the rest waits or is refused.
  // Three quarters admit calls, so no single call can be larger; the rest is for what arrives before it is admitted.
  int64_t budget_bytes = int64_t{1} << 30;
  int64_t max_waiting_calls = 16384;  // calls that may wait for room or for their turn; more are QUEUE_FULL
  int64_t max_running_calls = 32;     // calls that hold a ticket at once; a call that waits can still be dropped
  int64_t max_connections = 4096;     // below the limit of open files; further ones are closed at once
  int64_t max_streams_per_connection = 16384;

  // Exactly-once sessions.
  int64_t max_sessions = 4096;                      // beyond it the one that idled longest ends
  int64_t session_idle_timeout_ms = 3'600'000;      // an idle session ends after it
  int64_t session_window_entries = 1024;            // outcomes kept per session
  int64_t session_window_bytes = int64_t{1} << 20;  // of outcomes kept per session

  // Lookup plans kept for the push of the same batch.
  int64_t lookup_token_bytes = int64_t{256} << 20;  // of all tokens; 0 = none are given
  int64_t lookup_token_timeout_ms = 60'000;

  // Times.
  int64_t stall_timeout_ms = 20'000;     // a stream whose peer makes no progress for so long is cut
  int64_t drain_timeout_ms = 30'000;     // from SIGTERM to exit
  int64_t step_timeout_ms = 30'000;      // a rank that waits so long for its peers fails the step
  int64_t liveness_timeout_ms = 60'000;  // no ticket finished for so long while some wait: not alive

  int64_t collective_chunk_bytes = int64_t{64} << 20;  // exchanges between ranks are cut into pieces of this size
  std::string log_level = "info";                      // debug, info, warning or error

  int node_count() const { return static_cast<int>(ranks_per_node.size()); }
  // Ranks of this node; call after Validate().
  int rank_count() const { return static_cast<int>(ranks_per_node[static_cast<size_t>(node_index)]); }

  // INVALID_ARGUMENT listing every fault, or OK.
  absl::Status Validate() const;
};

}  // namespace embps
