#include "server/flow/mutation.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/request_checks.h"
#include "server/env/clock.h"

namespace embps {

bool KeepsRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return false;
    default:
      break;
  }
  switch (ReasonOf(status)) {
    case Reason::kPlanStale:
    case Reason::kLookupTokenExpired:
    case Reason::kChecksumMismatch:
      return false;
    default:
      return true;
  }
}

absl::StatusOr<Mutation> Mutation::Begin(Core& core, const v1::MutationId& id, Answer answer) {
  EMBPS_RETURN_IF_ERROR(wire::CheckMutationId(id));
  Mutation mutation;
  mutation.core_ = &core;
  mutation.fresh_ = true;
  if (!core.options.dedupe) return mutation;
  const MutationKey key{id.session_id(), id.sequence(), id.first_incomplete(), id.push_digest()};
  auto shared = std::make_shared<Answer>(std::move(answer));
  ClaimResult result =
      core.sessions->Claim(key, core.clock->Now(), &mutation.claim_,
                           [shared](absl::StatusOr<std::string> reply) { std::move (*shared)(std::move(reply)); });
  mutation.fresh_ = result.kind == ClaimResult::Kind::kFresh;
  if (result.kind == ClaimResult::Kind::kRefused) return result.status;
  if (result.kind == ClaimResult::Kind::kApplied) std::move (*shared)(std::move(result.reply));
  return mutation;
}

void Mutation::Applied(std::string response) {
  if (claim_.held()) claim_.Applied(std::move(response), core_->clock->Now());
}

void Mutation::Failed(const absl::Status& status) {
  if (!claim_.held()) return;
  KeepsRefusal(status) ? claim_.Refused(status, core_->clock->Now()) : claim_.Release(status, core_->clock->Now());
}

void Mutation::FailedAfterTicket(const absl::Status& status) {
  if (claim_.held()) claim_.Refused(status, core_->clock->Now());
}

absl::Status CheckIncarnation(const Core& core, uint64_t incarnation, bool any_is_zero) {
  if (incarnation == core.server_incarnation || (any_is_zero && incarnation == 0)) return absl::OkStatus();
  return MakeError(Reason::kStateRolledBack,
                   absl::StrFormat("server_incarnation: requested %016x, this server is %016x; what was pushed to "
                                   "another incarnation is not here",
                                   incarnation, core.server_incarnation),
                   {{"incarnation", absl::StrFormat("%016x", core.server_incarnation)}});
}

}  // namespace embps
