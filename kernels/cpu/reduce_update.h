// reduce_update of kernels/api/reduce_update.h on the CPU. Returns when the work is done.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/parallel_for.h"
#include "kernels/api/reduce_update.h"

namespace embps::kernels::cpu {

int64_t ReduceUpdateWorkspaceBytes(const GradShape& shape, int32_t dim);

// One pass over each plan, cut into pieces at run boundaries: a row belongs to one piece, so results are the same bits
// for any worker count.
void ReduceUpdate(absl::Span<const ReduceUpdateTask> tasks, ParallelFor& parallel);

}  // namespace embps::kernels::cpu
