#include <cmath>

#include "kernels/ref/elements.h"
#include "kernels/ref/random.h"
#include "kernels/ref/rows.h"

namespace embps::kernels::ref {
namespace {

uint32_t RandomBits32(uint64_t key, int64_t row, int64_t column) {
  const auto r = static_cast<uint64_t>(row);
  return Philox({static_cast<uint32_t>(r % (1ull << 32)), static_cast<uint32_t>((r >> 32) % (1ull << 16)), 0,
                 static_cast<uint32_t>(column / 4)},
                static_cast<uint32_t>(key % (1ull << 32)), static_cast<uint32_t>(key >> 32))[column % 4];
}

// The z >= 0 whose upper tail probability is p, by bisection of the complementary error function.
double UpperQuantile(double p) {
  double low = 0, high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(middle / std::sqrt(2.0)) > p ? low : high) = middle;
  }
  return low;
}

double InitialValue(const InitRowsTask& task, uint32_t random) {
  switch (task.kind) {
    case InitializerKind::kUniform: {
      const double u = (random / 256) / 16777216.0;
      return task.a + (static_cast<double>(task.b) - task.a) * u;
    }
    case InitializerKind::kNormal: {
      const double p = (2.0 * (random / 256 % 8388608) + 1) / 33554432.0;
      return (random >= 2147483648u ? -1.0 : 1.0) * task.a * UpperQuantile(p);
    }
    case InitializerKind::kConstant:
      return task.a;
  }
  return 0;
}

}  // namespace

void InitRows(absl::Span<const InitRowsTask> tasks) {
  for (const InitRowsTask& task : tasks) {
    for (int64_t row = task.first_row; row < task.first_row + task.count; ++row) {
      for (int64_t c = 0; c < task.table.dim; ++c) {
        const uint32_t random = RandomBits32(task.key, task.table.row_base + row, task.table.column_base + c);
        WriteElement(task.table.rows, task.table.type, row * task.table.dim + c, InitialValue(task, random),
                     Overflow::kLargestFinite);
      }
      for (int64_t i = 0; i < task.state_widths.state0; ++i) {
        task.table.state0[row * task.state_widths.state0 + i] = 0;
      }
      for (int64_t i = 0; i < task.state_widths.state1; ++i) {
        task.table.state1[row * task.state_widths.state1 + i] = 0;
      }
    }
  }
}

}  // namespace embps::kernels::ref
