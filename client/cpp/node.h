// One node as the client sees it: its transport, who it is, and calls that are tried again until they succeed, fail for
// good, or their deadline comes.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "client/cpp/scheduler.h"
#include "client/cpp/transport.h"
#include "embps/options.h"
#include "embps/stats.h"
#include "proto/base/mutex.h"

namespace embps::client {

// A call over all its attempts, which never overlap.
class LogicalCall {
 public:
  virtual ~LogicalCall() = default;
  // Another attempt begins, the first included: back to the first request message, no reply yet.
  virtual void BeginAttempt() = 0;
  virtual void NextRequest(Message* message, bool* last) = 0;
  virtual absl::Status OnReply(Message message) = 0;
  // A last word on an attempt that the transport calls OK, such as "rows are missing".
  virtual absl::Status CheckReply() { return absl::OkStatus(); }
  // Once, after the last attempt.
  virtual void Finish(const absl::Status& status, int attempts) = 0;
};

// UNAVAILABLE, and RESOURCE_EXHAUSTED other than MESSAGE_TOO_LARGE and MEMORY_FULL.
bool IsRetryable(const absl::Status& status);
// A mutation that ended so may or may not have been applied.
bool IsUnknownOutcome(const absl::Status& status);

// Who answers at a node.
struct NodeIdentity {
  ServerInfo info;
  std::string session_id;  // 16 bytes, of this incarnation
};

class Node {
 public:
  Node(int index, std::shared_ptr<Transport> transport, Scheduler* scheduler, const RetryPolicy& retry);

  int index() const { return index_; }
  NodeIdentity identity() const;
  void set_identity(NodeIdentity identity);

  // Never blocks. Finish comes on a thread of the transport or of the scheduler, or, when the deadline has passed
  // already, on this one.
  void Call(const CallTarget& target, std::shared_ptr<LogicalCall> call);

 private:
  class Attempt;

  void StartAttempt(const CallTarget& target, std::shared_ptr<LogicalCall> call, int attempt);
  void EndAttempt(const CallTarget& target, std::shared_ptr<LogicalCall> call, int attempt, const absl::Status& status);
  std::chrono::milliseconds BackoffAfter(int attempt, const absl::Status& status);

  const int index_;
  Scheduler* const scheduler_;
  const RetryPolicy retry_;
  mutable Mutex mu_;
  NodeIdentity identity_ ABSL_GUARDED_BY(mu_);
  std::minstd_rand random_ ABSL_GUARDED_BY(mu_);
  const std::shared_ptr<Transport> transport_;  // last: gone first, its calls end before the rest goes
};

}  // namespace embps::client
