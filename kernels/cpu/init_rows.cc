// init_rows on the CPU: fills rows from Philox and zeroes their state.
//
// Parallel over pieces of rows; each value depends on its global row and column only. Bytes moved: what is written.
#include <cstring>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/rows.h"
#include "kernels/math/initializer.h"
#include "kernels/math/philox.h"
#include "kernels/math/rounding.h"

namespace embps::kernels::cpu {
namespace {

void Store(float value, float* to) { *to = value; }
void Store(float value, Half* to) { to->bits = RoundToHalf(value, /*stochastic=*/false, 0).bits; }
void Store(float value, Bfloat* to) { to->bits = RoundToBfloat(value, /*stochastic=*/false, 0).bits; }

template <class T>
void FillRow(const InitRowsTask& task, int64_t row, T* to) {
  const auto global_row = static_cast<uint64_t>(task.table.row_base + row);
  const auto column_base = static_cast<uint32_t>(task.table.column_base);
  if (task.kind == InitializerKind::kConstant) {
    for (int32_t c = 0; c < task.table.dim; ++c) Store(task.a, to + c);
    return;
  }
  PhiloxBlock block = {};
  for (int32_t c = 0; c < task.table.dim; ++c) {
    const uint32_t column = column_base + static_cast<uint32_t>(c);
    const uint32_t word = column % kInitialColumnsPerBlock;
    if (c == 0 || word == 0) {
      block = Philox4x32(PhiloxCounter(global_row, 0, column / kInitialColumnsPerBlock), task.key);
    }
    Store(InitialValue(task.kind, task.a, task.b, block.word[word]), to + c);
  }
}

void ZeroState(float* state, int64_t width, int64_t first_row, int64_t count) {
  if (state != nullptr) std::memset(state + first_row * width, 0, count * width * sizeof(float));
}

}  // namespace

void InitRows(absl::Span<const InitRowsTask> tasks, ParallelFor& parallel) {
  // Units are rows and their state; a row costs about its width.
  constexpr int64_t kMinPieceRows = 256;
  ForEachPiece(
      tasks, parallel, kMinPieceRows, [](const InitRowsTask& task) { return task.count; },
      [](const InitRowsTask& task, int64_t begin, int64_t end) {
        const int64_t first = task.first_row + begin, last = task.first_row + end;
        WithElementType(task.table.type, [&](auto* type) {
          auto* const rows = static_cast<decltype(type)>(task.table.rows);
          for (int64_t row = first; row < last; ++row) FillRow(task, row, rows + row * task.table.dim);
        });
        ZeroState(task.table.state0, task.state_widths.state0, first, end - begin);
        ZeroState(task.table.state1, task.state_widths.state1, first, end - begin);
      });
}

}  // namespace embps::kernels::cpu
