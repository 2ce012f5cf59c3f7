#include "kernels/ref/elements.h"
#include "kernels/ref/rows.h"

namespace embps::kernels::ref {

void RowCopy(absl::Span<const RowCopyTask> tasks) {
  for (const RowCopyTask& task : tasks) {
    for (int64_t i = 0; i < task.id_count; ++i) {
      for (int64_t c = 0; c < task.dim; ++c) {
        float& value = task.values[i * task.value_stride + c];
        const int64_t index = task.ids[i] * task.dim + c;
        if (task.write) {
          WriteElement(task.table, task.type, index, value, Overflow::kLargestFinite);
        } else {
          value = static_cast<float>(ReadElement(task.table, task.type, index));
        }
      }
    }
  }
}

}  // namespace embps::kernels::ref
