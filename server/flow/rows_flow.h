// ReadRows and WriteRows: whole rows of this node's shards as fp32, in ticket order like everything else.
#pragma once
#include "embps/v1/table.pb.h"
#include "server/flow/core.h"

namespace embps {

// MESSAGE_TOO_LARGE when the reply would exceed max_unary_bytes.
void ReadRows(Core& core, const v1::ReadRowsRequest& request, Reply<v1::ReadRowsResponse> done);
// Exactly once by its MutationId.
void WriteRows(Core& core, const v1::WriteRowsRequest& request, Reply<v1::WriteRowsResponse> done);

}  // namespace embps
