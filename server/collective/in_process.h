// The Collective of ranks that share memory: they meet in a hub, then each copies what it receives straight from the
// sender's buffers. The meeting happens when the stream runs the operation, so a deferred stream works too.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/collective/collective.h"

namespace embps {

struct InProcessCollectiveOptions {
  // How long a rank waits for the others at one operation, in milliseconds, > 0. Shorter finds a lost rank earlier; it
  // must exceed the longest time that a rank computes between two operations.
  int64_t step_timeout_ms = 30'000;

  absl::Status Validate() const;
};

// One per rank, world_size >= 1 of them; options must be valid. Each object is used by one thread at a time, and may be
// destroyed in any order.
//
// Operations are matched by the order in which a rank calls them. Failures of one operation reach every rank alike:
// - a rank does not come within step_timeout_ms, or its object was destroyed: UNAVAILABLE PEER_DOWN, also at the late
//   rank when it comes;
// - sizes, counts or operations that do not match: INTERNAL, naming rank, peer, transfer index and both sizes.
// The outputs of a failed operation are zeros, which are safe as lengths and ids of what still runs; the next operation
// starts afresh.
std::vector<std::unique_ptr<Collective>> NewInProcessCollectives(int world_size,
                                                                 const InProcessCollectiveOptions& options = {});

}  // namespace embps
