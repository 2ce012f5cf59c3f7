// How a call's work is cut for ParallelFor.
//
// Work is measured in units that a caller defines (ids + bags of a task, rows, ...); the units of all tasks form one
// line, which is cut into equal pieces. So many small tasks share a piece, one dominating task is spread over many, and
// the cut depends on sizes and the worker count only. Nothing is allocated.
#pragma once
#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/api/parallel_for.h"
#include "kernels/cpu/policy.h"

namespace embps::kernels::cpu {

// Calls run(task, begin, end) so that the ranges cover [0, units_of(task)) of each task exactly once, from the workers
// of `parallel`. Pieces hold at least `min_piece_units`, because handing one out costs about a microsecond.
template <class Task, class UnitsOf, class RunRange>
void ForEachPiece(absl::Span<const Task> tasks, ParallelFor& parallel, int64_t min_piece_units, UnitsOf units_of,
                  RunRange run) {
  int64_t total = 0;
  for (const Task& task : tasks) total += units_of(task);
  if (total == 0) return;
  const int workers = parallel.worker_count();
  const int64_t most = workers == 1 ? 1 : int64_t{workers} * Policy().pieces_per_worker;
  const int64_t pieces = std::clamp<int64_t>(total / std::max<int64_t>(min_piece_units, 1), 1, most);
  const auto run_piece = [&](int64_t piece) {
    const int64_t begin = total / pieces * piece + std::min(piece, total % pieces);
    const int64_t end = begin + total / pieces + (piece < total % pieces ? 1 : 0);
    int64_t at = 0;  // units of the tasks before this one
    for (const Task& task : tasks) {
      const int64_t units = units_of(task);
      const int64_t from = std::max(begin, at) - at;
      const int64_t to = std::min(end, at + units) - at;
      if (from < to) run(task, from, to);
      at += units;
      if (at >= end) break;
    }
  };
  if (pieces == 1) {
    run_piece(0);
  } else {
    parallel.Run(pieces, run_piece);
  }
}

}  // namespace embps::kernels::cpu
