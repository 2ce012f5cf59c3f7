// What all flows of a node share. The composition root owns the parts, fills one Core and hands it to the RPC edge;
// tests build it by hand. Flows know no gRPC.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embps/v1/stats.pb.h"
#include "kernels/api/backend.h"
#include "server/collective/collective.h"
#include "server/sequencer/sequencer.h"

namespace embps {

class Clock;
class CollectiveCounters;
class LookupTokens;
class SessionStore;
class ShardStore;
class Stats;
class TicketOffice;

// Constant after start.
struct FlowOptions {
  std::string version;  // of embps
  std::string cluster_id;
  int node_index = 0;
  std::vector<int> ranks_per_node = {1};  // of the whole cluster, by node
  v1::Limits limits;                      // as advertised by GetServerInfo; see DefaultLimits()
  int64_t frame_bytes = 1 << 20;  // payload of a reply frame when the client wishes none; 4 KiB to max_frame_bytes
  int64_t token_bytes = int64_t{256} << 20;       // memory for batches kept under lookup tokens; 0 = keep none
  int64_t token_ttl_ms = 60'000;                  // how long a token lives
  int64_t memory_limit_bytes = 0;                 // for the tables of one rank; 0 = none
  uint32_t session_window_entries = 1024;         // as the session store's, for OpenSession's answer
  int64_t init_piece_bytes = int64_t{256} << 20;  // initial rows of a new table are written in pieces of so many bytes
                                                  // per rank, a ticket each, so that liveness sees progress
  bool dedupe = true;  // false only in the test that proves that dedupe matters: every push is applied as fresh

  // All faults at once, or OK.
  absl::Status Validate() const;
  int rank_count() const { return ranks_per_node[static_cast<size_t>(node_index)]; }
};

// max_unary 2 MiB, max_frame 1 MiB, max_message 4 MiB, budget 1 GiB, 2^28 ids, 2^24 bags, 4096 features, stall 10 s.
v1::Limits DefaultLimits();

// Everything is borrowed and must outlive the flows, that is, the sequencer must be destroyed first.
struct Core {
  FlowOptions options;
  uint64_t server_incarnation = 0;                // random, never 0
  std::chrono::steady_clock::time_point started;  // by `clock`, for the uptime
  kernels::Backend* backend = nullptr;
  Sequencer* sequencer = nullptr;
  std::vector<Collective*> collectives;                     // [W], by rank
  const CollectiveCounters* collective_counters = nullptr;  // null = nobody counts
  const Clock* clock = nullptr;
  ShardStore* store = nullptr;
  SessionStore* sessions = nullptr;
  Stats* stats = nullptr;
  LookupTokens* tokens = nullptr;
  TicketOffice* tickets = nullptr;
};

// How control flows answer: exactly once, on the calling thread or on a lane.
template <class Response>
using Reply = absl::AnyInvocable<void(absl::StatusOr<Response>) &&>;

}  // namespace embps
