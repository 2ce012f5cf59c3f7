// Control flows of tables. Each validates, changes the store in ticket order and answers with the generated response.
#pragma once
#include "absl/status/statusor.h"
#include "embps/v1/table.pb.h"
#include "server/flow/core.h"

namespace embps {

// Compare-and-set, all or nothing: node 0 gives the uid, the other nodes need one. Answers when the rows are
// initialised.
void CreateTables(Core& core, const v1::CreateTablesRequest& request, Reply<v1::CreateTablesResponse> done);

absl::StatusOr<v1::GetTableResponse> GetTable(Core& core, const v1::GetTableRequest& request);
absl::StatusOr<v1::ListTablesResponse> ListTables(Core& core, const v1::ListTablesRequest& request);
// Idempotent. Flows that took their ticket before still finish on the dropped table.
absl::StatusOr<v1::DeleteTableResponse> DeleteTable(Core& core, const v1::DeleteTableRequest& request);
// Exactly once by its MutationId; holds from the next push on. `done` may run inside the call.
void UpdateTable(Core& core, const v1::UpdateTableRequest& request, Reply<v1::UpdateTableResponse> done);
absl::StatusOr<v1::GetPlanResponse> GetPlan(Core& core, const v1::GetPlanRequest& request);

}  // namespace embps
