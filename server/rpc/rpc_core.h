// What all handlers of the RPC edge share. The composition root owns the parts.
#pragma once
#include <cstdint>

#include "server/admission/byte_budget.h"
#include "server/admission/start_queue.h"
#include "server/env/clock.h"
#include "server/flow/core.h"
#include "server/rpc/byte_buffers.h"
#include "server/rpc/call_tracker.h"
#include "server/rpc/stall_watch.h"
#include "server/stats/stats.h"

namespace embps {

// Everything is borrowed and outlives every call, every flow and every slice.
struct RpcCore {
  Core* flows = nullptr;
  const Clock* clock = nullptr;
  ByteBudget* budget = nullptr;
  StartQueue* start_queue = nullptr;
  StallWatch* stall_watch = nullptr;
  CallTracker* calls = nullptr;
  SliceLedger* slices = nullptr;
  Stats* stats = nullptr;
  int64_t max_unary_bytes = 0;  // payload
  int64_t max_frame_bytes = 0;  // payload
};

}  // namespace embps
