#include "kernels/ref/grad_prepare.h"

#include <cmath>

namespace embps::kernels::ref {

void GradPrepare(absl::Span<const GradPrepareTask> tasks) {
  for (const GradPrepareTask& task : tasks) {
    for (int64_t slot = 0; slot < task.slot_count; ++slot) {
      for (int64_t column = 0; column < task.dim; ++column) {
        float& g = task.grads[slot * task.dim + column];
        double value = static_cast<double>(g) * task.scale;
        if (task.max_gradient > 0 && std::abs(value) > task.max_gradient) {
          value = std::copysign(static_cast<double>(task.max_gradient), value);
        }
        if (task.divisors != nullptr && task.divisors[slot] > 1) value /= static_cast<double>(task.divisors[slot]);
        g = static_cast<float>(value);
      }
    }
  }
}

}  // namespace embps::kernels::ref
