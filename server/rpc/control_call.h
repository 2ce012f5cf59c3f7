// One reactor for every unary method whose messages are small: parse, hand to a flow function, answer.
#pragma once
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "proto/wire/parse_message.h"
#include "server/flow/core.h"
#include "server/rpc/byte_buffers.h"
#include "server/rpc/call_base.h"

namespace embps {

template <class Request, class Response>
class ControlCall final : public CallBase<grpc::ServerUnaryReactor, ControlCall<Request, Response>> {
  using Base = CallBase<grpc::ServerUnaryReactor, ControlCall>;

 public:
  ControlCall(RpcCore& core, CallCounters& counters, grpc::CallbackServerContext* context, grpc::ByteBuffer* reply)
      : Base(core, counters, context), reply_(reply) {}

  // handler: (const Request&, Reply<Response>), answers once on any thread. The request is gone when it returns.
  template <class Handler>
  void Handle(const grpc::ByteBuffer& buffer, Handler&& handler) {
    ReceivedMessage received;
    absl::Status status = received.Assign(buffer);
    if (!status.ok()) return this->Close(status);
    absl::StatusOr<Request> request = wire::ParseMessage<Request>(received.pieces());
    if (!request.ok()) return this->Close(request.status());
    handler(*request, Reply<Response>([self = this->shared_from_this()](absl::StatusOr<Response> response) {
      self->Answer(response);
    }));
  }

 private:
  void Answer(const absl::StatusOr<Response>& response) {
    if (!response.ok()) return this->Close(response.status());
    if (!this->ClaimFinish()) return;
    *reply_ = ToByteBuffer(*response);
    this->Finish(grpc::Status::OK);
  }

  grpc::ByteBuffer* const reply_;  // gRPC's, valid until the call is finished
};

}  // namespace embps
