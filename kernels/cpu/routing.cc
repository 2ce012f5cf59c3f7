// offsets, permute and scatter_rows on the CPU: prefix sums and copies of whole rows.
//
// Parallel over tasks (offsets) or pieces of rows. Bytes moved: what is read and written once. Deterministic.
#include "kernels/cpu/routing.h"

#include <cstring>

#include "kernels/cpu/pieces.h"

namespace embps::kernels::cpu {
namespace {

constexpr int64_t kMinPieceBytes = 1 << 16;

// Rows of equal size from one stride to another.
void CopyRows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t row_bytes, int64_t rows) {
  if (from_stride == row_bytes && to_stride == row_bytes) {
    std::memcpy(to, from, row_bytes * rows);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, row_bytes);
}

// Pieces of whole rows for tasks with row_count and row_bytes: the units are bytes, a row belongs to the piece in which
// it begins.
template <class Task, class RunRows>
void ForEachRowPiece(absl::Span<const Task> tasks, ParallelFor& parallel, RunRows run_rows) {
  ForEachPiece(
      tasks, parallel, kMinPieceBytes, [](const Task& task) { return task.row_count * task.row_bytes; },
      [&](const Task& task, int64_t begin, int64_t end) {
        const int64_t size = task.row_bytes;
        run_rows(task, (begin + size - 1) / size, (end + size - 1) / size);
      });
}

}  // namespace

void Offsets(absl::Span<const OffsetsTask> tasks, ParallelFor& parallel) {
  constexpr int64_t kMinPieceBags = 1 << 13;
  int64_t bags = 0;
  for (const OffsetsTask& task : tasks) bags += task.count;
  const auto run = [&](int64_t t) {
    const OffsetsTask& task = tasks[t];
    int64_t sum = 0;
    task.offsets[0] = 0;
    for (int64_t i = 0; i < task.count; ++i) task.offsets[i + 1] = sum += task.lengths[i];
  };
  const auto task_count = static_cast<int64_t>(tasks.size());
  if (bags < kMinPieceBags) {
    for (int64_t t = 0; t < task_count; ++t) run(t);
  } else {
    parallel.Run(task_count, run);
  }
}

void Permute(absl::Span<const PermuteTask> tasks, ParallelFor& parallel) {
  ForEachRowPiece(tasks, parallel, [](const PermuteTask& task, int64_t begin, int64_t end) {
    CopyRows(static_cast<const char*>(task.src) + begin * task.src_stride_bytes, task.src_stride_bytes,
             static_cast<char*>(task.dst) + begin * task.dst_stride_bytes, task.dst_stride_bytes, task.row_bytes,
             end - begin);
  });
}

void ScatterRows(absl::Span<const ScatterRowsTask> tasks, ParallelFor& parallel) {
  ForEachRowPiece(tasks, parallel, [](const ScatterRowsTask& task, int64_t begin, int64_t end) {
    const char* const src = static_cast<const char*>(task.src);
    char* const dst = static_cast<char*>(task.dst);
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(dst + (task.positions[i] - task.position_base) * task.dst_stride_bytes, src + i * task.row_bytes,
                  task.row_bytes);
    }
  });
}

}  // namespace embps::kernels::cpu
