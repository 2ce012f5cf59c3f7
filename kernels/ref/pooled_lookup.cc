#include "kernels/ref/pooled_lookup.h"

#include "kernels/ref/elements.h"

namespace embps::kernels::ref {

void PooledLookup(absl::Span<const PooledLookupTask> tasks) {
  for (const PooledLookupTask& task : tasks) {
    const int64_t dim = task.table.dim;
    for (int64_t b = 0; b < task.bag_count; ++b) {
      const int64_t length = task.offsets[b + 1] - task.offsets[b];
      for (int64_t c = 0; c < dim; ++c) {
        double sum = 0;
        for (int64_t j = task.offsets[b]; j < task.offsets[b + 1]; ++j) {
          const double weight = task.weights != nullptr ? task.weights[j] : 1.0;
          sum += weight * ReadElement(task.table.rows, task.table.type, task.ids[j] * dim + c);
        }
        int64_t divisor = 1;
        if (task.divisors != nullptr) divisor = task.divisors[b];
        if (task.divide_by_length) divisor = length;
        if (divisor > 1) sum /= static_cast<double>(divisor);
        WriteElement(task.out, task.out_type, b * task.out_stride + c, sum, Overflow::kInfinity);
      }
    }
  }
}

void SequenceLookup(absl::Span<const SequenceLookupTask> tasks) {
  for (const SequenceLookupTask& task : tasks) {
    const int64_t dim = task.table.dim;
    for (int64_t i = 0; i < task.id_count; ++i) {
      for (int64_t c = 0; c < dim; ++c) {
        const double value =
            task.ids[i] < 0 ? 0.0 : ReadElement(task.table.rows, task.table.type, task.ids[i] * dim + c);
        WriteElement(task.out, task.out_type, i * task.out_stride + c, value, Overflow::kInfinity);
      }
    }
  }
}

void ReducePartials(absl::Span<const ReducePartialsTask> tasks) {
  for (const ReducePartialsTask& task : tasks) {
    for (int64_t b = 0; b < task.bag_count; ++b) {
      for (int64_t c = 0; c < task.dim; ++c) {
        double sum = 0;
        for (int32_t part = 0; part < task.part_count; ++part) sum += task.parts[part][b * task.dim + c];
        if (task.divisors != nullptr && task.divisors[b] > 1) sum /= static_cast<double>(task.divisors[b]);
        WriteElement(task.out, task.out_type, b * task.out_stride + c, sum, Overflow::kInfinity);
      }
    }
  }
}

}  // namespace embps::kernels::ref
