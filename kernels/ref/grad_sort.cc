#include "kernels/ref/grad_sort.h"

#include <algorithm>

namespace embps::kernels::ref {

int64_t GradPlanBytes(const GradShape& shape) {
  return std::max<int64_t>(shape.id_count * int64_t{sizeof(PlannedOccurrence)}, 1);
}

int64_t GradSortWorkspaceBytes(const GradShape&) { return 0; }

void GradSort(absl::Span<const GradSortTask> tasks) {
  for (const GradSortTask& task : tasks) {
    auto* plan = static_cast<PlannedOccurrence*>(task.plan);
    for (int64_t slot = 0; slot < task.slot_count; ++slot) {
      for (int64_t i = task.offsets[slot]; i < task.offsets[slot + 1]; ++i) {
        plan[i] = {task.ids[i], slot, task.weights == nullptr ? 1.0 : task.weights[i]};
      }
    }
    std::stable_sort(plan, plan + task.id_count,
                     [](const PlannedOccurrence& a, const PlannedOccurrence& b) { return a.row < b.row; });
  }
}

void DistinctRows(absl::Span<const DistinctRowsTask> tasks) {
  for (const DistinctRowsTask& task : tasks) {
    const auto* plan = static_cast<const PlannedOccurrence*>(task.plan);
    int64_t count = 0;
    for (int64_t i = 0; i < task.shape.id_count; ++i) {
      if (i == 0 || plan[i].row != plan[i - 1].row) task.rows[count++] = plan[i].row;
    }
    *task.count = count;
  }
}

}  // namespace embps::kernels::ref
