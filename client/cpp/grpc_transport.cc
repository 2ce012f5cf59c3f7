#include "client/cpp/grpc_transport.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <malloc.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/call_count.h"
#include "client/cpp/grpc_bytes.h"
#include "proto/base/error.h"
#include "proto/base/mutex.h"
#include "proto/wire/error_details.h"

namespace embps::client {
namespace {

constexpr int kTrimThreshold = 1 << 30;
constexpr int kMmapThreshold = 32 << 20;
// A restarted server is found within a second.
constexpr int kMinReconnectMs = 100;
constexpr int kMaxReconnectMs = 1000;
// Data replies are bounded by the server's limits; lists of tables and placements may be larger.
constexpr int kMaxReplyBytes = 64 << 20;
// protobuf's bound for one message.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();

absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  absl::string_view details;
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(wire::kErrorDetailsKey);
  if (found != trailers.end()) details = {found->second.data(), found->second.size()};
  return wire::DecodeError(static_cast<absl::StatusCode>(status.error_code()), status.error_message(), details);
}

absl::Status CheckSize(const Message& message) {
  const size_t bytes = message.size();
  if (bytes <= kMaxMessageBytes) return absl::OkStatus();
  return MakeError(Reason::kMessageTooLarge,
                   absl::StrCat("a message of ", bytes, " bytes, at most ", kMaxMessageBytes, " can be sent"));
}

// One call in flight; frees itself. Unary calls are streams of one message each way: the wire is the same.
class GrpcCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  GrpcCall(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<CallHandler> handler,
           std::shared_ptr<CallCount> count)
      : channel_(std::move(channel)), handler_(std::move(handler)), count_(std::move(count)) {
    count_->Enter();
  }

  void Start(const std::string& method, std::chrono::system_clock::time_point deadline) {
    context_.set_initial_metadata_corked(true);  // headers travel with the first message
    context_.set_deadline(deadline);
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, method, {}, this);
    StartRead(&incoming_);
    AddHold();  // OnDone must not come while this function still builds
    if (!BuildNext()) {
      // Nothing can be sent; the call begins only to end.
      context_.TryCancel();
      StartCall();
      RemoveHold();
      return;
    }
    SendNext();
    StartCall();
    KeepOneBuilt();
    RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return;  // OnDone tells why
    {
      MutexLock lock(&mu_);
      writing_ = false;
    }
    if (SendNext()) KeepOneBuilt();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    grpc::ByteBuffer reply;
    reply.Swap(&incoming_);
    StartRead(&incoming_);  // another thread may be in here before the copy below is done
    if (absl::Status status = handler_->OnReply(ToMessage(reply)); !status.ok()) Fail(status);
  }

  void OnDone(const grpc::Status& status) override {
    absl::Status fault;
    {
      MutexLock lock(&mu_);
      fault = fault_;
    }
    const absl::Status result = fault.ok() ? FromGrpc(status, context_) : fault;
    const std::shared_ptr<CallHandler> handler = std::move(handler_);
    const std::shared_ptr<CallCount> count = std::move(count_);
    delete this;
    handler->OnDone(result);
    count->Leave();
  }

 private:
  // Makes next_ unless the last message was made. One thread at a time: who just sent. False on a fault.
  bool BuildNext() {
    Message message;
    bool last = false;
    handler_->NextRequest(&message, &last);
    if (absl::Status status = CheckSize(message); !status.ok()) {
      Fail(status);
      return false;
    }
    grpc::ByteBuffer buffer = ToByteBuffer(message);
    MutexLock lock(&mu_);
    next_.Swap(&buffer);
    next_ready_ = true;
    next_is_last_ = last;
    return true;
  }

  // Sends next_ if it is there and nothing else is being sent. True when it did and more is to be built.
  bool SendNext() {
    bool last;
    {
      MutexLock lock(&mu_);
      if (writing_ || !next_ready_) return false;
      writing_ = true;
      next_ready_ = false;
      outgoing_.Clear();
      outgoing_.Swap(&next_);
      last = next_is_last_;
      if (last) all_built_ = true;
    }
    if (last) {
      StartWriteLast(&outgoing_, grpc::WriteOptions());
    } else {
      StartWrite(&outgoing_);
    }
    return !last;
  }

  // While one message is on its way the next is built.
  void KeepOneBuilt() {
    for (;;) {
      {
        MutexLock lock(&mu_);
        if (all_built_ || next_ready_) return;
      }
      if (!BuildNext() || !SendNext()) return;
    }
  }

  void Fail(const absl::Status& status) {
    {
      MutexLock lock(&mu_);
      if (fault_.ok()) fault_ = status;
    }
    context_.TryCancel();
  }

  const std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<CallHandler> handler_;
  std::shared_ptr<CallCount> count_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  Mutex mu_;
  grpc::ByteBuffer next_ ABSL_GUARDED_BY(mu_);  // built, not sent
  bool next_ready_ ABSL_GUARDED_BY(mu_) = false;
  bool next_is_last_ ABSL_GUARDED_BY(mu_) = false;
  bool all_built_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status fault_ ABSL_GUARDED_BY(mu_);
};

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(const std::string& endpoint, const GrpcOptions& options, const Scheduler* scheduler)
      : scheduler_(scheduler), count_(std::make_shared<CallCount>()) {
    for (int i = 0; i < options.channels; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else equal channels share one connection
      arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
      arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectMs);
      arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMinReconnectMs);
      arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
      arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
      arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
      if (options.keepalive_ms > 0) {
        arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_ms);
        arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive_timeout_ms);
        arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
        arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
      }
      channels_.push_back(grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments));
    }
  }
  ~GrpcTransport() override { count_->WaitForNone(); }

  void Start(const CallTarget& target, std::shared_ptr<CallHandler> handler) override {
    const auto left = target.deadline - scheduler_->Now();
    const auto deadline =
        std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::microseconds>(left);
    const size_t channel = next_.fetch_add(1, std::memory_order_relaxed) % channels_.size();
    (new GrpcCall(channels_[channel], std::move(handler), count_))->Start(target.method, deadline);
  }

 private:
  const Scheduler* const scheduler_;
  const std::shared_ptr<CallCount> count_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::atomic<size_t> next_{0};
};

class GrpcTransportFactory final : public TransportFactory {
 public:
  GrpcTransportFactory(const GrpcOptions& options, const Scheduler* scheduler)
      : options_(options), scheduler_(scheduler) {}
  std::unique_ptr<Transport> Connect(const std::string& endpoint) override {
    return std::make_unique<GrpcTransport>(endpoint, options_, scheduler_);
  }

 private:
  const GrpcOptions options_;
  const Scheduler* const scheduler_;
};

}  // namespace

std::unique_ptr<TransportFactory> NewGrpcTransportFactory(const GrpcOptions& options, const Scheduler* scheduler) {
  return std::make_unique<GrpcTransportFactory>(options, scheduler);
}

void TuneMallocOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
    mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  });
}

}  // namespace embps::client
