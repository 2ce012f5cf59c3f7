// init_rows and row_copy of kernels/api/rows.h on the CPU. Both return when the work is done.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/parallel_for.h"
#include "kernels/api/rows.h"

namespace embps::kernels::cpu {

void InitRows(absl::Span<const InitRowsTask> tasks, ParallelFor& parallel);
void RowCopy(absl::Span<const RowCopyTask> tasks, ParallelFor& parallel);

}  // namespace embps::kernels::cpu
