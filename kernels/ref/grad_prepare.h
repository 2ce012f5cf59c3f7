// grad_prepare of kernels/api/reduce_update.h in double and plain loops.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/reduce_update.h"

namespace embps::kernels::ref {

void GradPrepare(absl::Span<const GradPrepareTask> tasks);

}  // namespace embps::kernels::ref
