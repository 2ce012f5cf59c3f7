// OpenSession and CloseSession.
#pragma once
#include "absl/status/statusor.h"
#include "embps/v1/embedding.pb.h"
#include "server/flow/core.h"

namespace embps {

absl::StatusOr<v1::OpenSessionResponse> OpenSession(Core& core, const v1::OpenSessionRequest& request);
absl::StatusOr<v1::CloseSessionResponse> CloseSession(Core& core, const v1::CloseSessionRequest& request);

}  // namespace embps
