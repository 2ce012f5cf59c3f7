// Exactly once for PushGrad, WriteRows and UpdateTable: the claim of a (session, sequence) and the rule by which
// failures settle it.
#pragma once
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embps/v1/embedding.pb.h"
#include "server/flow/core.h"
#include "server/session/session_store.h"

namespace embps {

// Whether a failure before anything was applied is kept as the mutation's outcome. True for what a retry cannot change;
// false for UNAVAILABLE, RESOURCE_EXHAUSTED, CANCELLED, DEADLINE_EXCEEDED, PLAN_STALE, LOOKUP_TOKEN_EXPIRED and
// CHECKSUM_MISMATCH, after which the client sends the same sequence again, mended.
bool KeepsRefusal(const absl::Status& status);

class Mutation {
 public:
  using Answer = absl::AnyInvocable<void(absl::StatusOr<std::string>) &&>;

  // A fresh mutation, or a duplicate (fresh() is false): then `answer` was called, or is called once the first call
  // settles, with its serialised response. Errors: MALFORMED, SESSION_ENDED, SEQ_TOO_OLD, SEQ_REUSED, QUEUE_FULL, or
  // the refusal kept; `answer` is dropped then.
  static absl::StatusOr<Mutation> Begin(Core& core, const v1::MutationId& id, Answer answer);

  bool fresh() const { return fresh_; }
  // Each ends a fresh mutation; at most one is called, and destruction counts as Failed(CANCELLED).
  void Applied(std::string response);
  void Failed(const absl::Status& status);
  // It was applied, at least in part: the outcome is kept whatever it is.
  void FailedAfterTicket(const absl::Status& status);

 private:
  Core* core_ = nullptr;
  bool fresh_ = false;
  SessionClaim claim_;  // not held when FlowOptions::dedupe is off
};

// ABORTED STATE_ROLLED_BACK unless `incarnation` is the server's. any_is_zero: 0 stands for any.
absl::Status CheckIncarnation(const Core& core, uint64_t incarnation, bool any_is_zero);

// For control mutations: calls `work` if the mutation is fresh, else answers from the first call's response. Response
// has a field `duplicate`. `work` gets the fresh mutation and the reply; it must end both.
template <class Response>
void RunOnce(Core& core, const v1::MutationId& id, Reply<Response> done,
             absl::AnyInvocable<void(Mutation, Reply<Response>) &&> work) {
  auto shared = std::make_shared<Reply<Response>>(std::move(done));
  absl::StatusOr<Mutation> mutation = Mutation::Begin(core, id, [shared](absl::StatusOr<std::string> bytes) {
    if (!bytes.ok()) return std::move(*shared)(bytes.status());
    Response response;
    response.ParseFromString(*bytes);
    response.set_duplicate(true);
    std::move (*shared)(std::move(response));
  });
  if (!mutation.ok()) return std::move(*shared)(mutation.status());
  if (mutation->fresh()) std::move(work)(*std::move(mutation), std::move(*shared));
}

}  // namespace embps
