// Hands out tickets together with what must change in ticket order on the host: the count of pushes (the node's
// version), steps and learning rates. So a lookup can tell exactly which pushes it saw.
#pragma once
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "proto/base/mutex.h"
#include "server/sequencer/sequencer.h"

namespace embps {

// Thread-safe; never blocks for long, since Sequencer::Submit does not.
class TicketOffice {
 public:
  explicit TicketOffice(Sequencer& sequencer) : sequencer_(sequencer) {}

  // `in_order` runs before any later ticket is taken and before a lane sees the flow; version = pushes before this
  // flow. It must not block and must not take a ticket.
  void TakeForRead(std::shared_ptr<Flow> flow, absl::FunctionRef<void(uint64_t version)> in_order);
  // version = pushes up to this one, which counts.
  void TakeForPush(std::shared_ptr<Flow> flow, absl::FunctionRef<void(uint64_t version)> in_order);
  // A change that needs no lane.
  void InOrder(absl::FunctionRef<void()> change);

  uint64_t version() const;

 private:
  Sequencer& sequencer_;
  mutable Mutex mu_;
  uint64_t pushes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace embps
