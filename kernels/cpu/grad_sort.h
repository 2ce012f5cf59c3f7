// grad_sort of kernels/api/grad_sort.h on the CPU. The calls return when the work is done.
//
// A plan is the array of packed keys (row << payload bits | payload), ascending, in 32 bits where they fit, else 64 or
// 128. The payload is the slot, or with weights the occurrence, whose slot and weight follow in an array of their own.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/grad_sort.h"
#include "kernels/api/parallel_for.h"

namespace embps::kernels::cpu {

int64_t GradPlanBytes(const GradShape& shape);
int64_t GradSortWorkspaceBytes(const GradShape& shape);

// Stable LSD radix sort on the row bits of each task. Parallel over tasks; a task that is larger than its share of the
// work is split by row range.
void GradSort(absl::Span<const GradSortTask> tasks, ParallelFor& parallel);

void DistinctRows(absl::Span<const DistinctRowsTask> tasks, ParallelFor& parallel);

}  // namespace embps::kernels::cpu
