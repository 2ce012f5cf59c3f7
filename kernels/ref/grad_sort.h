// grad_sort of kernels/api/grad_sort.h in plain loops. The plan is an array of (row, slot, weight), sorted by row.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/grad_sort.h"

namespace embps::kernels::ref {

// One occurrence of a plan.
struct PlannedOccurrence {
  int64_t row = 0;
  int64_t slot = 0;
  double weight = 1.0;
};

int64_t GradPlanBytes(const GradShape& shape);
int64_t GradSortWorkspaceBytes(const GradShape& shape);
void GradSort(absl::Span<const GradSortTask> tasks);
void DistinctRows(absl::Span<const DistinctRowsTask> tasks);

}  // namespace embps::kernels::ref
