#include "server/config/config_keys.h"

#include <array>

namespace embps {

absl::Span<const ConfigKey> ConfigKeys() {
  using C = ServerConfig;
  static const auto* const kKeys = new std::vector<ConfigKey>{
      {"cluster_id", &C::cluster_id, "name of the cluster, equal on all its nodes"},
      {"node_index", &C::node_index, "place of this node in ranks_per_node, from 0"},
      {"ranks_per_node", &C::ranks_per_node, "ranks of every node of the cluster, such as 2,2"},
      {"listen", &C::listen, "addresses: HOST:PORT (port 0 = any free one) or unix:PATH"},
      {"backend", &C::backend, "what computes: cpu"},
      {"workers", &C::workers, "cores that kernels use, 0 = all"},
      {"table_memory_limit_bytes", &C::table_memory_limit_bytes, "rows and state of one rank, 0 = no limit"},
      {"max_unary_bytes", &C::max_unary_bytes, "payload of a unary data call, either way"},
      {"max_frame_bytes", &C::max_frame_bytes, "payload of one stream frame, either way"},
      {"max_ids", &C::max_ids, "ids of one call"},
      {"max_bags", &C::max_bags, "bags of one call"},
      {"max_features", &C::max_features, "features of one call"},
      {"budget_bytes", &C::budget_bytes, "requests and replies in flight, all clients together"},
      {"max_waiting_calls", &C::max_waiting_calls, "calls that wait for room or for their turn"},
      {"max_running_calls", &C::max_running_calls, "calls that hold a ticket at once"},
      {"max_connections", &C::max_connections, "open connections, further ones are closed"},
      {"max_streams_per_connection", &C::max_streams_per_connection, "calls in flight on one connection"},
      {"max_sessions", &C::max_sessions, "open sessions, then the longest idle one ends"},
      {"session_idle_timeout_ms", &C::session_idle_timeout_ms, "an idle session ends after it"},
      {"session_window_entries", &C::session_window_entries, "push outcomes kept per session"},
      {"session_window_bytes", &C::session_window_bytes, "bytes of push outcomes kept per session"},
      {"lookup_token_bytes", &C::lookup_token_bytes, "ids kept for pushes of the same batch, 0 = none"},
      {"lookup_token_timeout_ms", &C::lookup_token_timeout_ms, "how long they are kept"},
      {"stall_timeout_ms", &C::stall_timeout_ms, "a stream without progress for so long is cut"},
      {"drain_timeout_ms", &C::drain_timeout_ms, "longest time from SIGTERM to exit"},
      {"step_timeout_ms", &C::step_timeout_ms, "longest time a rank waits for its peers"},
      {"liveness_timeout_ms", &C::liveness_timeout_ms, "not alive when no ticket finished for so long"},
      {"collective_chunk_bytes", &C::collective_chunk_bytes, "largest piece of an exchange between ranks"},
      {"log_level", &C::log_level, "debug, info, warning or error"},
  };
  return *kKeys;
}

}  // namespace embps
