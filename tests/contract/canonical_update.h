// reduce_update in plain fp32 loops with the canonical order of numerics.md section 5 written out, on the scalar form
// of kernels/math: what every backend must give to the bit.
#pragma once
#include "tests/contract/update_case.h"

namespace embps::testing {

// What `update` must leave in its table, computed from its present content, and the counts of it.
struct CanonicalResult {
  TableBytes table;
  kernels::UpdateCounts counts;
};
CanonicalResult CanonicalUpdate(const UpdateCase& update);

}  // namespace embps::testing
