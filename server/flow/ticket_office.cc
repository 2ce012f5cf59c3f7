#include "server/flow/ticket_office.h"

#include <utility>

namespace embps {

void TicketOffice::TakeForRead(std::shared_ptr<Flow> flow, absl::FunctionRef<void(uint64_t version)> in_order) {
  MutexLock lock(&mu_);
  in_order(pushes_);
  sequencer_.Submit(std::move(flow));
}

void TicketOffice::TakeForPush(std::shared_ptr<Flow> flow, absl::FunctionRef<void(uint64_t version)> in_order) {
  MutexLock lock(&mu_);
  in_order(++pushes_);
  sequencer_.Submit(std::move(flow));
}

void TicketOffice::InOrder(absl::FunctionRef<void()> change) {
  MutexLock lock(&mu_);
  change();
}

uint64_t TicketOffice::version() const {
  MutexLock lock(&mu_);
  return pushes_;
}

}  // namespace embps
