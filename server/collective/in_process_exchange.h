// The copying of one meeting, seen from the receiving rank. Not for use outside this folder.
#pragma once
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/collective/in_process_hub.h"

namespace embps {

// contributions[r]: what rank r brought, all present. Checks that everything addressed to `rank` matches what it
// expects, then copies or sums it; INTERNAL and nothing written when something does not match.
absl::Status ReceiveAll(int rank, absl::Span<const Contribution* const> contributions);

}  // namespace embps
