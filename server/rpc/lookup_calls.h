// Reactors of Lookup and LookupStream on raw bytes.
#pragma once
#include <deque>
#include <memory>

#include "embps/v1/embedding.pb.h"
#include "server/flow/lookup_flow.h"
#include "server/rpc/data_call.h"

namespace embps {

class LookupCall final : public DataCall<grpc::ServerUnaryReactor, LookupCall, LookupFlow, v1::LookupRequest> {
 public:
  LookupCall(RpcCore& core, CallCounters& counters, grpc::CallbackServerContext* context, grpc::ByteBuffer* reply)
      : DataCall(core, counters, context), reply_(reply) {}
  void Receive(grpc::ByteBuffer* request) { ReceiveUnary(request); }

 private:
  friend class DataCall<grpc::ServerUnaryReactor, LookupCall, LookupFlow, v1::LookupRequest>;
  absl::StatusOr<std::shared_ptr<LookupFlow>> BeginFlow(const v1::LookupHeader& header);
  absl::Status CheckComplete(const LookupFlow& flow) const;
  void Run(std::shared_ptr<LookupFlow> flow, StartQueue::Slot slot);
  void CancelFlow(LookupFlow& flow) { flow.Cancel(); }
  void Computed(const absl::Status& status);

  grpc::ByteBuffer* const reply_;  // gRPC's, valid until the call is finished
};

// Blocks are written as they become ready; the last write also finishes the call.
class LookupStreamCall final : public DataCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                                               LookupStreamCall, LookupFlow, v1::LookupStreamRequest> {
 public:
  using DataCall::DataCall;
  void Receive() { ReadNext(); }
  void OnReadDone(bool ok) override { FrameReceived(ok); }
  void OnWriteDone(bool ok) override;

 private:
  friend class DataCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, LookupStreamCall, LookupFlow,
                        v1::LookupStreamRequest>;
  absl::StatusOr<std::shared_ptr<LookupFlow>> BeginFlow(const v1::LookupHeader& header);
  absl::Status CheckComplete(const LookupFlow& flow) const { return absl::OkStatus(); }
  void Run(std::shared_ptr<LookupFlow> flow, StartQueue::Slot slot);
  void CancelFlow(LookupFlow& flow) { flow.Cancel(); }
  void BlockReady(int index);
  void Computed(const absl::Status& status);
  void WriteNext();
  void WriteBlock(int index, bool last);

  grpc::ByteBuffer outgoing_;

  Mutex ready_mu_;
  std::deque<int> ready_ ABSL_GUARDED_BY(ready_mu_);  // computed, not yet written
  int blocks_left_ ABSL_GUARDED_BY(ready_mu_) = 0;    // not yet given to gRPC
  bool computed_ ABSL_GUARDED_BY(ready_mu_) = false;  // the flow is done and the reply info complete
  bool writing_ ABSL_GUARDED_BY(ready_mu_) = false;   // somebody takes blocks from ready_
};

}  // namespace embps
