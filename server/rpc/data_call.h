// The request side of Lookup and PushGrad, unary and streamed alike:
//   received bytes -> Begin (header) -> admission -> Append until complete -> line for a ticket -> Run.
// Threads are never blocked: whoever completes a step goes on with the next one. A cancel or a deadline ends the call
// at any step before Run, and the flow is dropped then.
#pragma once
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/wire/parse_message.h"
#include "proto/wire/payload_checksum.h"
#include "server/rpc/call_base.h"

namespace embps {

// MESSAGE_TOO_LARGE, saying what to do.
absl::Status CheckPayload(size_t bytes, int64_t limit_bytes, absl::string_view message_name);
// INFLIGHT_BYTES.
absl::Status NotAdmitted(const ByteBudget& budget, int64_t bytes);

// Derived has
//   absl::StatusOr<std::shared_ptr<FlowType>> BeginFlow(const Header&);   null: answered already
//   absl::Status CheckComplete(const FlowType&);                          last chance to refuse
//   void Run(std::shared_ptr<FlowType>, StartQueue::Slot);                takes the ticket
//   void CancelFlow(FlowType&);                                           after Run
template <class Reactor, class Derived, class FlowType, class Request>
class DataCall : public CallBase<Reactor, Derived> {
  using Base = CallBase<Reactor, Derived>;

 public:
  using Base::Base;

  void OnCancel() override {
    cancelled_.store(true);
    const bool waited = LeaveLines();
    // First, so that a flow that is cut short finds the call closed.
    this->Close(absl::CancelledError("cancelled"), waited ? CallOutcome::kExpiredBeforeStart : CallOutcome::kFailed);
    const std::shared_ptr<FlowType> flow = this->flow();
    if (flow != nullptr && started_.load()) derived().CancelFlow(*flow);
    if (!started_.load()) DropFlow();
  }

  void OnDone() override {
    DropFlow();
    Base::OnDone();
  }

 protected:
  // A whole unary request. Returns once the call is answered, waits in line or runs. gRPC would keep the received bytes
  // until the call ends; they go as soon as they are decoded.
  void ReceiveUnary(grpc::ByteBuffer* buffer) {
    const absl::Status status = DecodeUnary(*buffer);
    received_.Clear();
    buffer->Clear();
    if (!status.ok()) return Fail(status);
    if (const std::shared_ptr<FlowType> flow = this->flow(); flow != nullptr) EnterLine(*flow);
  }

  // Reads frame after frame; the next one only when the last one was decoded into admitted memory.
  void ReadNext() {
    if (this->BeginOperation()) this->StartRead(&incoming_);
  }

  // For OnReadDone of a stream.
  void FrameReceived(bool ok) {
    if (!this->EndOperation()) return;
    if (!ok) return Fail(EndedEarly());
    Request request;
    if (const absl::Status status = Parse(incoming_, this->core().max_frame_bytes, &request); !status.ok()) {
      return Fail(status);
    }
    if (begun_) return request.has_header() ? Fail(Misplaced("only the first frame has")) : DecodeFrame();
    begun_ = true;
    if (const absl::Status status = Begin(request); !status.ok()) return Fail(status);
    if (const std::shared_ptr<FlowType> flow = this->flow(); flow != nullptr) AdmitOrWait(*flow);
  }

  // Ends the call with an error; the flow goes first, so that its claim and its memory are free when the client hears.
  void Fail(const absl::Status& error, CallOutcome outcome = CallOutcome::kFailed) {
    DropFlow();
    this->Close(error, outcome);
  }

  // Null once dropped.
  std::shared_ptr<FlowType> flow() {
    MutexLock lock(&flow_mu_);
    return flow_;
  }

 private:
  Derived& derived() { return static_cast<Derived&>(*this); }

  absl::Status Misplaced(absl::string_view rule) const {
    return MakeError(Reason::kMalformed, absl::StrCat(Request::descriptor()->name(), ": ", rule, " a header"));
  }

  absl::Status EndedEarly() {
    const std::shared_ptr<FlowType> flow = this->flow();
    const absl::Status missing = flow == nullptr ? absl::OkStatus() : flow->CheckComplete();
    return MakeError(Reason::kMalformed, absl::StrCat("the stream ended before the request was complete",
                                                      missing.ok() ? "" : "; ", missing.message()));
  }

  absl::Status Parse(const grpc::ByteBuffer& buffer, int64_t max_payload_bytes, Request* request) {
    EMBPS_RETURN_IF_ERROR(received_.Assign(buffer));
    EMBPS_RETURN_IF_ERROR(wire::ParseBulkMessage(received_.pieces(), request, &message_));
    EMBPS_RETURN_IF_ERROR(CheckPayload(message_.payload_bytes(), max_payload_bytes, Request::descriptor()->name()));
    const absl::Status checksum = wire::VerifyChecksum(*request, message_);
    if (!checksum.ok()) this->core().stats->checksum_failures.Add(1);
    return checksum;
  }

  // Leaves flow_ empty when the call was answered already.
  absl::Status Begin(const Request& request) {
    if (!request.has_header()) return Misplaced("the first or only message needs");
    EMBPS_ASSIGN_OR_RETURN(std::shared_ptr<FlowType> flow, derived().BeginFlow(request.header()));
    MutexLock lock(&flow_mu_);
    if (!cancelled_.load()) flow_ = std::move(flow);
    return absl::OkStatus();
  }

  absl::Status DecodeUnary(const grpc::ByteBuffer& buffer) {
    Request request;
    EMBPS_RETURN_IF_ERROR(Parse(buffer, this->core().max_unary_bytes, &request));
    EMBPS_RETURN_IF_ERROR(Begin(request));
    const std::shared_ptr<FlowType> flow = this->flow();
    if (flow == nullptr) return absl::OkStatus();
    ByteBudget::Grant grant = this->core().budget->TryAcquire(flow->admission_bytes());
    if (grant == nullptr) return NotAdmitted(*this->core().budget, flow->admission_bytes());
    EMBPS_RETURN_IF_ERROR(flow->Admitted(std::move(grant)));
    EMBPS_RETURN_IF_ERROR(flow->Append(message_));
    return flow->CheckComplete();
  }

  void AdmitOrWait(const FlowType& flow) {
    Remember(budget_waiter_, this->core().budget->AcquireOrWait(
                                 flow.admission_bytes(), [self = this->shared_from_this()](ByteBudget::Grant grant) {
                                   self->Admitted(std::move(grant));
                                 }));
  }

  void Admitted(ByteBudget::Grant grant) {
    const std::shared_ptr<FlowType> flow = this->flow();
    if (flow == nullptr) return;
    if (grant == nullptr) return Fail(NotAdmitted(*this->core().budget, flow->admission_bytes()));
    if (const absl::Status status = flow->Admitted(std::move(grant)); !status.ok()) return Fail(status);
    DecodeFrame();
  }

  void DecodeFrame() {
    const std::shared_ptr<FlowType> flow = this->flow();
    if (flow == nullptr) return;
    if (const absl::Status status = flow->Append(message_); !status.ok()) return Fail(status);
    received_.Clear();
    incoming_.Clear();
    flow->complete() ? EnterLine(*flow) : ReadNext();
  }

  void EnterLine(const FlowType& flow) {
    if (const absl::Status status = derived().CheckComplete(flow); !status.ok()) return Fail(status);
    const StartQueue::Entered entered = this->core().start_queue->Enter(
        this->deadline(), [self = this->shared_from_this()](StartQueue::Slot slot) { self->MyTurn(std::move(slot)); });
    if (!entered.accepted) return Fail(MakeError(Reason::kQueueFull, "too many calls wait for their turn: back off"));
    Remember(start_waiter_, entered.waiter);
  }

  void MyTurn(StartQueue::Slot slot) {
    std::shared_ptr<FlowType> flow = this->flow();
    if (flow == nullptr) return;
    if (slot == nullptr || cancelled_.load()) {
      return Fail(absl::DeadlineExceededError("the deadline passed before the call got its turn"),
                  CallOutcome::kExpiredBeforeStart);
    }
    started_.store(true);
    derived().Run(std::move(flow), std::move(slot));
  }

  // OnCancel may have looked before the waiter was known.
  void Remember(std::atomic<uint64_t>& place, uint64_t waiter) {
    place.store(waiter);
    if (waiter != 0 && cancelled_.load() && LeaveLines()) DropFlow();
  }

  // True if the call still waited for its ticket.
  bool LeaveLines() {
    const bool left_budget = this->core().budget->Leave(budget_waiter_.exchange(0));
    const bool left_start = this->core().start_queue->Leave(start_waiter_.exchange(0));
    return left_budget || left_start;
  }

  void DropFlow() {
    std::shared_ptr<FlowType> dropped;
    MutexLock lock(&flow_mu_);
    dropped.swap(flow_);
  }

  grpc::ByteBuffer incoming_;  // of a stream
  ReceivedMessage received_;
  wire::BulkMessage message_;  // views of received_
  bool begun_ = false;

  std::atomic<bool> cancelled_{false};
  std::atomic<bool> started_{false};
  std::atomic<uint64_t> budget_waiter_{0};  // 0 = none
  std::atomic<uint64_t> start_waiter_{0};

  Mutex flow_mu_;
  std::shared_ptr<FlowType> flow_ ABSL_GUARDED_BY(flow_mu_);
};

}  // namespace embps
