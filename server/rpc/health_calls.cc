#include "server/rpc/health_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/control_call.h"

namespace embps {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse ResponseOf(const std::optional<bool>& serving) {
  HealthCheckResponse response;
  response.set_status(!serving.has_value() ? HealthCheckResponse::SERVICE_UNKNOWN
                      : *serving           ? HealthCheckResponse::SERVING
                                           : HealthCheckResponse::NOT_SERVING);
  return response;
}

// Writes the state when it begins and after every change; only the newest state matters.
class WatchCall final : public CallBase<grpc::ServerWriteReactor<grpc::ByteBuffer>, WatchCall>,
                        public HealthBoard::Watcher {
 public:
  WatchCall(RpcCore& core, CallCounters& counters, grpc::CallbackServerContext* context, HealthBoard& board)
      : CallBase(core, counters, context), board_(board) {}

  void Begin(const grpc::ByteBuffer& buffer) {
    ReceivedMessage received;
    if (const absl::Status status = received.Assign(buffer); !status.ok()) return Close(status);
    const auto request = wire::ParseMessage<HealthCheckRequest>(received.pieces());
    if (!request.ok()) return Close(request.status());
    service_ = request->service();
    board_.Watch(shared_from_this());
    Changed();
  }

  void Changed() override {
    bool end = false;
    {
      MutexLock lock(&state_mu_);
      if (writing_) return;  // its completion looks again
      const HealthBoard::State state = board_.Read(service_);
      const HealthCheckResponse response = ResponseOf(state.serving);
      if (sent_ == response.status()) {
        if (!state.ended) return;
        end = true;
      } else {
        if (!BeginOperation()) return;
        writing_ = true;
        sent_ = response.status();
        outgoing_ = ToByteBuffer(response);
      }
    }
    if (!end) return StartWrite(&outgoing_);
    if (ClaimFinish()) Finish(grpc::Status::OK);
  }

  void OnWriteDone(bool ok) override {
    if (!EndOperation()) return;
    if (!ok) return Close(absl::CancelledError("the peer went away"));
    {
      MutexLock lock(&state_mu_);
      writing_ = false;
    }
    Changed();
  }

  void OnCancel() override { Close(absl::CancelledError("cancelled")); }

 private:
  HealthBoard& board_;
  std::string service_;

  Mutex state_mu_;
  bool writing_ ABSL_GUARDED_BY(state_mu_) = false;
  std::optional<HealthCheckResponse::ServingStatus> sent_ ABSL_GUARDED_BY(state_mu_);
  grpc::ByteBuffer outgoing_;  // of whoever set writing_
};

}  // namespace

HealthService::HealthService(RpcCore& core, HealthBoard& board)
    : core_(core),
      board_(board),
      check_counters_(core.stats->call("Health.Check")),
      watch_counters_(core.stats->call("Health.Watch")) {}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* reply) {
  using Call = ControlCall<HealthCheckRequest, HealthCheckResponse>;
  const auto call = std::make_shared<Call>(core_, check_counters_, context, reply);
  call->Enlist(WhileDraining::kUncounted);
  call->Handle(*request, [this](const HealthCheckRequest& check, Reply<HealthCheckResponse> done) {
    const HealthBoard::State state = board_.Read(check.service());
    if (state.serving.has_value()) return std::move(done)(ResponseOf(state.serving));
    std::move(done)(absl::NotFoundError(absl::StrCat("unknown service '", check.service().substr(0, 128), "'")));
  });
  return call.get();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(grpc::CallbackServerContext* context,
                                                                 const grpc::ByteBuffer* request) {
  const auto call = std::make_shared<WatchCall>(core_, watch_counters_, context, board_);
  call->Enlist(WhileDraining::kUncounted);
  call->Begin(*request);
  return call.get();
}

}  // namespace embps
