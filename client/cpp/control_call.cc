#include "client/cpp/control_call.h"

#include "proto/base/mutex.h"

namespace embps::client {
namespace {

class WaitedCall final : public LogicalCall {
 public:
  explicit WaitedCall(std::string request) : request_(std::make_shared<const std::string>(std::move(request))) {}

  void BeginAttempt() override {
    MutexLock lock(&mu_);
    reply_ = {};
  }
  void NextRequest(Message* message, bool* last) override {
    message->pieces.push_back({*request_, request_});
    *last = true;
  }
  absl::Status OnReply(Message message) override {
    MutexLock lock(&mu_);
    reply_ = std::move(message);
    return absl::OkStatus();
  }
  void Finish(const absl::Status& status, int attempts) override {
    MutexLock lock(&mu_);
    status_ = status;
    finished_ = true;
    changed_.NotifyAll();
  }

  absl::StatusOr<Message> Wait() {
    MutexLock lock(&mu_);
    while (!finished_) changed_.Wait(&mu_);
    if (!status_.ok()) return status_;
    return std::move(reply_);
  }

 private:
  const std::shared_ptr<const std::string> request_;
  Mutex mu_;
  CondVar changed_;
  Message reply_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

absl::StatusOr<Message> CallAndWait(Node& node, const std::string& method, std::string request, TimePoint deadline) {
  auto call = std::make_shared<WaitedCall>(std::move(request));
  node.Call({method, CallKind::kUnary, deadline}, call);
  return call->Wait();
}

}  // namespace embps::client
