// Reactors of PushGrad and PushGradStream on raw bytes. From its ticket on a push is applied whether or not the call is
// still there, and the outcome is kept for the retry.
#pragma once
#include <memory>
#include <utility>

#include "embps/v1/embedding.pb.h"
#include "server/flow/push_grad_flow.h"
#include "server/rpc/byte_buffers.h"
#include "server/rpc/data_call.h"

namespace embps {

// What the unary and the streamed push have in common; Reactor is gRPC's, Request the message that is received.
template <class Reactor, class Derived, class Request>
class PushCallBase : public DataCall<Reactor, Derived, PushGradFlow, Request> {
  using Base = DataCall<Reactor, Derived, PushGradFlow, Request>;

 public:
  PushCallBase(RpcCore& core, CallCounters& counters, grpc::CallbackServerContext* context, grpc::ByteBuffer* reply)
      : Base(core, counters, context), reply_(reply) {}

 protected:
  friend Base;

  // A duplicate is answered by `done` alone: now, or when the push it joined settles.
  absl::StatusOr<std::shared_ptr<PushGradFlow>> BeginFlow(const v1::PushGradHeader& header) {
    EMBPS_ASSIGN_OR_RETURN(std::shared_ptr<PushGradFlow> flow,
                           PushGradFlow::Begin(*this->core().flows, header, [self = this->shared_from_this()](auto r) {
                             self->Settled(std::move(r));
                           }));
    if (flow->answered()) return nullptr;
    return flow;
  }

  absl::Status CheckComplete(const PushGradFlow& flow) const { return absl::OkStatus(); }

  void Run(std::shared_ptr<PushGradFlow> flow, StartQueue::Slot slot) {
    slot_ = std::move(slot);
    flow->Start();
  }

  void CancelFlow(PushGradFlow& flow) {}

 private:
  void Settled(absl::StatusOr<v1::PushGradResponse> response) {
    slot_.reset();
    if (!response.ok()) return this->Fail(response.status());
    if (!this->ClaimFinish()) return;
    *reply_ = ToByteBuffer(*response);  // PushGradStreamResponse has the same fields
    this->Finish(grpc::Status::OK);
  }

  grpc::ByteBuffer* const reply_;  // gRPC's, valid until the call is finished
  StartQueue::Slot slot_;          // from the ticket to the outcome
};

class PushGradCall final : public PushCallBase<grpc::ServerUnaryReactor, PushGradCall, v1::PushGradRequest> {
 public:
  using PushCallBase::PushCallBase;
  void Receive(grpc::ByteBuffer* request) { ReceiveUnary(request); }
};

class PushGradStreamCall final
    : public PushCallBase<grpc::ServerReadReactor<grpc::ByteBuffer>, PushGradStreamCall, v1::PushGradStreamRequest> {
 public:
  using PushCallBase::PushCallBase;
  void Receive() { ReadNext(); }
  void OnReadDone(bool ok) override { FrameReceived(ok); }
};

}  // namespace embps
