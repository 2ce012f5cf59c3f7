#include "kernels/ref/reduce_update.h"

#include <vector>

#include "kernels/ref/grad_sort.h"
#include "kernels/ref/optimizer.h"
#include "kernels/ref/rounding.h"
#include "proto/base/float16.h"

namespace embps::kernels::ref {
namespace {

double ReadElement(const TableView& table, int64_t index) {
  switch (table.type) {
    case ElementType::kFp32:
      return static_cast<const float*>(table.rows)[index];
    case ElementType::kFp16:
      return HalfToFloat(static_cast<const uint16_t*>(table.rows)[index]);
    case ElementType::kBf16:
      return BfloatToFloat(static_cast<const uint16_t*>(table.rows)[index]);
  }
  return 0;
}

// Writes one element of a row; 1 when it was saturated. The result is taken to fp32 before it is rounded further.
int64_t WriteElement(const ReduceUpdateTask& task, int64_t row, int64_t column, double value) {
  const TableView& table = task.table;
  const int64_t index = row * table.dim + column;
  if (table.type == ElementType::kFp32) {
    static_cast<float*>(table.rows)[index] = static_cast<float>(value);
    return 0;
  }
  const RoundedElement rounded = RoundElement(static_cast<float>(value), table.type, task.rounding,
                                              table.row_base + row, table.column_base + column);
  static_cast<uint16_t*>(table.rows)[index] = rounded.bits;
  return rounded.saturated ? 1 : 0;
}

std::vector<double> ReadState(const float* state, int64_t row, int64_t width) {
  if (width == 0) return {};
  return std::vector<double>(state + row * width, state + (row + 1) * width);
}

void WriteState(const std::vector<double>& values, int64_t row, float* state) {
  for (size_t j = 0; j < values.size(); ++j) state[row * values.size() + j] = static_cast<float>(values[j]);
}

void UpdateRow(const ReduceUpdateTask& task, int64_t row, const std::vector<double>& g) {
  const TableView& table = task.table;
  const StateWidths widths = StateWidthsOf(task.optimizer.type, table.dim);
  OptimizedRow updated;
  for (int64_t j = 0; j < table.dim; ++j) updated.x.push_back(ReadElement(table, row * table.dim + j));
  updated.state0 = ReadState(table.state0, row, widths.state0);
  updated.state1 = ReadState(table.state1, row, widths.state1);
  if (!OptimizeRow(task.optimizer, g, updated)) {
    ++task.counts->rows_overflowed;
    return;
  }
  ++task.counts->rows_updated;
  WriteState(updated.state0, row, table.state0);
  WriteState(updated.state1, row, table.state1);
  for (int64_t j = 0; j < table.dim; ++j) task.counts->values_saturated += WriteElement(task, row, j, updated.x[j]);
}

}  // namespace

int64_t ReduceUpdateWorkspaceBytes(const GradShape&, int32_t) { return 0; }

void ReduceUpdate(absl::Span<const ReduceUpdateTask> tasks) {
  for (const ReduceUpdateTask& task : tasks) {
    const auto* plan = static_cast<const PlannedOccurrence*>(task.plan);
    int64_t i = 0;
    while (i < task.shape.id_count) {
      const int64_t row = plan[i].row;
      std::vector<double> g(task.table.dim, 0.0);
      for (; i < task.shape.id_count && plan[i].row == row; ++i) {
        const float* slot = task.grads + plan[i].slot * task.grad_stride;
        for (int64_t j = 0; j < task.table.dim; ++j) g[j] += plan[i].weight * slot[j];
      }
      UpdateRow(task, row, g);
    }
  }
}

}  // namespace embps::kernels::ref
