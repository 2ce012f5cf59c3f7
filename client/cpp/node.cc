#include "client/cpp/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/error.h"

namespace embps::client {
namespace {

// A server that knows when to come back says so in the error's details.
constexpr absl::string_view kRetryAfterKey = "retry_after_ms";

}  // namespace

bool IsRetryable(const absl::Status& status) {
  if (absl::IsUnavailable(status)) return true;
  if (!absl::IsResourceExhausted(status)) return false;
  const Reason reason = ReasonOf(status);
  return reason != Reason::kMessageTooLarge && reason != Reason::kMemoryFull;
}

bool IsUnknownOutcome(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status) || absl::IsCancelled(status) ||
         absl::IsInternal(status) || absl::IsUnknown(status);
}

class Node::Attempt final : public CallHandler {
 public:
  Attempt(Node* node, const CallTarget& target, std::shared_ptr<LogicalCall> call, int attempt)
      : node_(node), target_(target), call_(std::move(call)), attempt_(attempt) {}

  void NextRequest(Message* message, bool* last) override { call_->NextRequest(message, last); }
  absl::Status OnReply(Message message) override { return call_->OnReply(std::move(message)); }
  void OnDone(const absl::Status& status) override {
    node_->EndAttempt(target_, std::move(call_), attempt_, status.ok() ? call_->CheckReply() : status);
  }

 private:
  Node* const node_;
  const CallTarget target_;
  std::shared_ptr<LogicalCall> call_;
  const int attempt_;
};

Node::Node(int index, std::shared_ptr<Transport> transport, Scheduler* scheduler, const RetryPolicy& retry)
    : index_(index),
      scheduler_(scheduler),
      retry_(retry),
      random_(std::random_device()()),
      transport_(std::move(transport)) {}

NodeIdentity Node::identity() const {
  MutexLock lock(&mu_);
  return identity_;
}

void Node::set_identity(NodeIdentity identity) {
  MutexLock lock(&mu_);
  identity_ = std::move(identity);
}

void Node::Call(const CallTarget& target, std::shared_ptr<LogicalCall> call) {
  StartAttempt(target, std::move(call), 1);
}

void Node::StartAttempt(const CallTarget& target, std::shared_ptr<LogicalCall> call, int attempt) {
  if (scheduler_->Now() >= target.deadline) {
    call->Finish(absl::DeadlineExceededError(
                     absl::StrCat("node ", index_, ": the deadline passed before ", target.method, " was sent")),
                 attempt - 1);
    return;
  }
  call->BeginAttempt();
  transport_->Start(target, std::make_shared<Attempt>(this, target, std::move(call), attempt));
}

void Node::EndAttempt(const CallTarget& target, std::shared_ptr<LogicalCall> call, int attempt,
                      const absl::Status& status) {
  const bool more_attempts = retry_.max_attempts == 0 || attempt < retry_.max_attempts;
  if (status.ok() || !IsRetryable(status) || !more_attempts) return call->Finish(status, attempt);
  const TimePoint next = scheduler_->Now() + BackoffAfter(attempt, status);
  if (next >= target.deadline) return call->Finish(status, attempt);
  scheduler_->RunAt(next, [this, target, call = std::move(call), attempt]() mutable {
    StartAttempt(target, std::move(call), attempt + 1);
  });
}

std::chrono::milliseconds Node::BackoffAfter(int attempt, const absl::Status& status) {
  double backoff_ms = retry_.initial_backoff_ms;
  for (int i = 1; i < attempt && backoff_ms < retry_.max_backoff_ms; ++i) backoff_ms *= retry_.multiplier;
  backoff_ms = std::min<double>(backoff_ms, retry_.max_backoff_ms);
  int64_t told_ms = 0;
  if (absl::SimpleAtoi(MetadataValue(status, kRetryAfterKey), &told_ms) && told_ms > 0) {
    backoff_ms = std::max(backoff_ms, static_cast<double>(told_ms));
  }
  MutexLock lock(&mu_);
  const double factor = std::uniform_real_distribution<double>(1.0 - retry_.jitter, 1.0 + retry_.jitter)(random_);
  return std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(backoff_ms * factor)));
}

}  // namespace embps::client
