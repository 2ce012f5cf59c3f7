// grad_prepare of kernels/api/reduce_update.h on the CPU. Returns when the work is done.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/parallel_for.h"
#include "kernels/api/reduce_update.h"

namespace embps::kernels::cpu {

// g = clamp(g * scale, +-max_gradient) / divisor, each step only where it is asked for. NaN stays NaN.
void GradPrepare(absl::Span<const GradPrepareTask> tasks, ParallelFor& parallel);

}  // namespace embps::kernels::cpu
