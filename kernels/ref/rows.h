// init_rows and row_copy of kernels/api/rows.h in double and plain loops.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/rows.h"

namespace embps::kernels::ref {

void InitRows(absl::Span<const InitRowsTask> tasks);
void RowCopy(absl::Span<const RowCopyTask> tasks);

}  // namespace embps::kernels::ref
