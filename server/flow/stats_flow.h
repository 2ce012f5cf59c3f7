// GetServerInfo and GetStats.
#pragma once
#include "absl/status/statusor.h"
#include "embps/v1/stats.pb.h"
#include "server/flow/core.h"

namespace embps {

v1::GetServerInfoResponse GetServerInfo(Core& core, const v1::GetServerInfoRequest& request);
// All but budget_used_bytes and budget_refused, which the RPC edge adds from its admission.
v1::GetStatsResponse GetStats(Core& core, const v1::GetStatsRequest& request);

}  // namespace embps
