// One PushGrad, unary or streamed, without gRPC:
//   Begin (header, dedupe) -> answered()? else admit admission_bytes() -> Admitted -> Append until complete() -> Start.
// Exactly once: the flow holds the claim of its (session, sequence). A deterministic error settles it as refused, so
// that a retry gets the same answer; UNAVAILABLE, RESOURCE_EXHAUSTED, CANCELLED and DEADLINE_EXCEEDED release it, and
// so does destruction before Start. After Start the push is applied whether or not anybody still listens.
#pragma once
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "embps/v1/embedding.pb.h"
#include "proto/wire/bulk_message.h"
#include "server/flow/core.h"
#include "server/sequencer/sequencer.h"

namespace embps {

class PushGradFlow : public Flow {
 public:
  // Called exactly once if Begin returned a flow and the flow was answered() or started; never otherwise.
  // PushGradStream's response has the same fields. May run on a lane thread, or inside Begin.
  using Done = Reply<v1::PushGradResponse>;

  // An error here (bad header, refused before, too old, session ended ...) is the answer; `done` is dropped then.
  static absl::StatusOr<std::shared_ptr<PushGradFlow>> Begin(Core& core, const v1::PushGradHeader& header, Done done);

  // A duplicate: of an applied push (done was called) or of one in progress (done comes when that one settles). The
  // rest of the request need not be read; the flow object may be dropped.
  virtual bool answered() const = 0;

  // As LookupFlow's. An error of these is the call's answer and settles the claim by the rule above; `done` is not
  // called.
  virtual int64_t admission_bytes() const = 0;
  virtual absl::Status Admitted(std::shared_ptr<void> grant) = 0;
  virtual absl::Status Append(const wire::BulkMessage& frame) = 0;
  virtual bool complete() const = 0;
  virtual absl::Status CheckComplete() const = 0;  // settles nothing

  // For faults that the caller finds (checksum, truncated stream, no admission, deadline): settles the claim by the
  // rule above. Nothing but destruction may follow.
  virtual void Fail(const absl::Status& status) = 0;

  // Only when complete(). Takes the ticket and returns at once; done is called when the push was applied.
  virtual void Start() = 0;
};

}  // namespace embps
