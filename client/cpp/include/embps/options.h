// Options of the client and of its calls.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "embps/table.h"

namespace embps {
inline namespace sdk {

// What to do when a node lost state that this client had seen (a restart): STATE_ROLLED_BACK is returned, or the lost
// tables are created again at their initial rows and the call goes on. Either way Client::rollback_count() tells.
enum class OnRollback { kRaise, kRecreate };

// kDrop: an id outside [0, R) is removed as if it had never been in its bag; a sequence keeps a zero row in its place.
enum class OutOfRangePolicy { kError, kDrop };
enum class NonfinitePolicy { kRefuse, kDropRows };

// Exponential backoff with jitter, inside the call's deadline. Only UNAVAILABLE and RESOURCE_EXHAUSTED are retried,
// always with the same sequence number.
struct RetryPolicy {
  int initial_backoff_ms = 20;
  int max_backoff_ms = 2000;
  double multiplier = 2.0;
  double jitter = 0.25;  // each wait is drawn from [1 - jitter, 1 + jitter] times the backoff
  int max_attempts = 0;  // 0 = as many as the deadline allows; 1 = no retry
};

struct ClientOptions {
  std::vector<std::string> nodes{};  // "host:port" or "unix:/path", every node of the cluster, in any order
  std::string cluster_id{};          // empty = whatever the nodes agree on
  std::string table_namespace = "default";
  std::string client_name = "embps-client";  // <= 128 bytes, for logs and statistics
  int connect_timeout_ms = 10'000;
  int lookup_timeout_ms = 30'000;
  int push_timeout_ms = 60'000;
  int control_timeout_ms = 60'000;  // tables, rows, statistics
  RetryPolicy retry{};
  int channels_per_node = 2;     // TCP connections to each node
  int max_pushes_in_flight = 1;  // 1 = pushes apply in the order of the calls; more may apply in any order
  OnRollback on_rollback = OnRollback::kRaise;
  int keepalive_ms = 10'000;  // ping while calls are open, so that a vanished peer is noticed; 0 = off
  int keepalive_timeout_ms = 5'000;
  int64_t streaming_store_bytes = 4 << 20;  // outputs at least so large are written past the cache
  bool payload_checksums = false;           // XXH64 of the payload of each message, which the server verifies
  // Raises glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of the whole process at the first Connect: without it, memory
  // of large replies goes back to the kernel and is faulted in again for each call (half the speed).
  bool tune_malloc = true;

  // All faults at once.
  absl::Status Validate() const;
};

class LookupTokenData;
// Names the routed ids of a lookup, kept by the servers for the push of the same batch.
using LookupToken = std::shared_ptr<const LookupTokenData>;

struct LookupOptions {
  DataType output_dtype = DataType::kFp32;
  OutOfRangePolicy out_of_range_policy = OutOfRangePolicy::kError;
  int timeout_ms = 0;             // 0 = the client's
  bool want_token = false;        // fills LookupResult::token
  int64_t reply_frame_bytes = 0;  // of streamed replies; 0 = the server's default
  // Memory for the pooled output instead of a fresh buffer: exactly element_count * item bytes (Client::PooledBytes),
  // and alive until the result's last use.
  absl::Span<char> pooled_output{};
};

struct PushOptions {
  OutOfRangePolicy out_of_range_policy = OutOfRangePolicy::kError;  // the lookup's
  NonfinitePolicy nonfinite_policy = NonfinitePolicy::kRefuse;
  float grad_scale = 1.0f;  // finite; multiplies every gradient first, such as 1 / trainers
  std::vector<std::pair<std::string, float>> learning_rates{};  // (table, rate) for this push alone; finite, >= 0
  LookupToken token{};  // of a lookup of the same batch: saves sending the ids. Expired: the ids are sent after all
  int timeout_ms = 0;   // 0 = the client's
};

}  // namespace sdk
}  // namespace embps
