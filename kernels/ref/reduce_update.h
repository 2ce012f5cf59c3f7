// reduce_update of kernels/api/reduce_update.h in double and plain loops.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/reduce_update.h"

namespace embps::kernels::ref {

int64_t ReduceUpdateWorkspaceBytes(const GradShape& shape, int32_t dim);
void ReduceUpdate(absl::Span<const ReduceUpdateTask> tasks);

}  // namespace embps::kernels::ref
