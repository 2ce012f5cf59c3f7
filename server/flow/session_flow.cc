#include "server/flow/session_flow.h"

#include "proto/base/status_macros.h"
#include "proto/plan/table_spec.h"
#include "server/env/clock.h"
#include "server/env/random_bytes.h"
#include "server/flow/mutation.h"
#include "server/session/session_store.h"

namespace embps {

absl::StatusOr<v1::OpenSessionResponse> OpenSession(Core& core, const v1::OpenSessionRequest& request) {
  EMBPS_RETURN_IF_ERROR(CheckIncarnation(core, request.server_incarnation(), /*any_is_zero=*/true));
  EMBPS_RETURN_IF_ERROR(plan::ValidateNamespace("namespace", request.namespace_()));
  if (!request.client_name().empty()) {
    EMBPS_RETURN_IF_ERROR(plan::ValidateTableName("client_name", request.client_name()));
  }
  v1::OpenSessionResponse response;
  response.set_session_id(RandomBytes(static_cast<int>(kSessionIdBytes)));
  response.set_server_incarnation(core.server_incarnation);
  response.set_window_entries(core.options.session_window_entries);
  const SessionInfo info{request.namespace_().empty() ? "default" : request.namespace_(), request.client_name()};
  EMBPS_RETURN_IF_ERROR(core.sessions->Open(response.session_id(), info, core.clock->Now()));
  return response;
}

absl::StatusOr<v1::CloseSessionResponse> CloseSession(Core& core, const v1::CloseSessionRequest& request) {
  EMBPS_RETURN_IF_ERROR(core.sessions->Close(request.session_id(), core.clock->Now()));
  return v1::CloseSessionResponse();
}

}  // namespace embps
