// Tickets and lanes: every flow of a node takes a ticket, and each rank runs its part of the flows in ticket order.
// So all ranks meet every collective in the same order, and a lookup sees a push wholly or not at all on this node.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/api/stream.h"

namespace embps {

// What a lane lends to the part that runs on it.
struct LaneContext {
  int rank = 0;
  uint64_t ticket = 0;
  kernels::Stream* stream = nullptr;
};

// One flow. RunRank is called once per rank, on that rank's lane thread, in ticket order; the parts of different ranks
// run at the same time. It must not wait for anything but collectives. The sequencer keeps the flow alive until every
// part has returned; a part whose stream work outlives it holds its own reference.
class Flow {
 public:
  virtual ~Flow() = default;
  virtual void RunRank(const LaneContext& lane) = 0;
};

class Sequencer {
 public:
  // One lane thread per stream; streams[r] belongs to rank r.
  explicit Sequencer(std::vector<std::unique_ptr<kernels::Stream>> streams);
  // Runs what was submitted, then stops. Not from a lane.
  ~Sequencer();
  Sequencer(const Sequencer&) = delete;
  Sequencer& operator=(const Sequencer&) = delete;

  // Never blocks, whatever the lanes do. Every lane gets the flow at the same place of its queue: the ticket, 1, 2, 3,
  // ... Safe from any thread, lanes included, until the destructor begins.
  uint64_t Submit(std::shared_ptr<Flow> flow);

  int rank_count() const;
  // Tickets whose parts have all returned, for liveness: it grows while anything is queued.
  uint64_t finished_count() const;
  uint64_t submitted_count() const;

 private:
  class State;
  const std::unique_ptr<State> state_;
};

}  // namespace embps
