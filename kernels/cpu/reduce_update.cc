// reduce_update on the CPU.
//
// Parallel over pieces of (task, key range), cut at run boundaries. One rolling pass over a plan: a scanner finds the
// runs of equal rows `update_ahead_rows` runs ahead, so that the row and the state of a later run are requested while
// an earlier one is updated. A run of one unweighted occurrence uses its gradient row in place; a longer one is summed
// in registers, chunk by chunk. Bytes moved: keys and gradient rows once per occurrence, row and state once each way
// per distinct row.
#include "kernels/cpu/reduce_update.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "kernels/cpu/grad_plan.h"
#include "kernels/cpu/policy.h"
#include "kernels/cpu/row_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_update.cc"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/highway.h"
#include "kernels/cpu/gradient_sum-inl.h"
#include "kernels/cpu/row_update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kLineFloats = 16;  // of a cache line

// The update of one piece of a plan.
template <class Key>
class PieceUpdate {
 public:
  PieceUpdate(const ReduceUpdateTask& task, const PlanLayout& layout, UpdateScratch scratch)
      : task_(task),
        keys_(static_cast<const Key*>(task.plan)),
        payload_bits_(layout.payload_bits),
        occurrences_(
            reinterpret_cast<const PlanOccurrence*>(static_cast<const std::byte*>(task.plan) + layout.keys_bytes)),
        context_{.scalars = MakeOptimizerScalars(task.optimizer, task.table.dim),
                 .table = task.table,
                 .rounding = task.rounding,
                 .scratch = scratch,
                 .prefetch_to_l2 = Policy().row_prefetch == RowPrefetch::kLinesToL2},
        batch_rows_(std::clamp<int64_t>(Policy().update_ahead_rows, 1, BatchRows(task.table.dim))),
        update_batch_(PickRule(task.optimizer, task.table)) {}

  UpdateCounts Run(int64_t begin, int64_t end) {
    UpdateCounts counts;
    RowBatch batches[2];
    next_key_ = begin;
    if (WantsGradientsInOrder(end - begin)) ReadGradientsInOrder();
    Fill(end, 0, batches[0]);
    for (int current = 0; batches[current].count > 0; current ^= 1) {
      Fill(end, (current ^ 1) * batch_rows_, batches[current ^ 1]);
      update_batch_(context_, batches[current], batches[current ^ 1], counts);
    }
    return counts;
  }

 private:
  // Runs take gradients in random order. A block of them that fits the L2 cache and is needed about once or more is
  // faster read in order first, which the hardware prefetches.
  bool WantsGradientsInOrder(int64_t id_count) const {
    constexpr int64_t kMaxBytes = int64_t{1} << 20;
    const int64_t slots = task_.shape.slot_count;
    return slots <= kMaxBytes / (task_.table.dim * int64_t{sizeof(float)}) && id_count >= slots / 2;
  }

  void ReadGradientsInOrder() const {
    for (int64_t slot = 0; slot < task_.shape.slot_count; ++slot) {
      const volatile float* const gradient = task_.grads + slot * task_.grad_stride;  // volatile: the load must stay
      for (int64_t c = 0; c < task_.table.dim; c += kLineFloats) static_cast<void>(gradient[c]);
    }
  }

  // Takes the next runs of equal rows and sums their gradients, into the sums from `first_sum` on where need be.
  HWY_INLINE void Fill(int64_t end, int64_t first_sum, RowBatch& batch) {
    batch.count = 0;
    int64_t key = next_key_;
    while (key != end && batch.count < batch_rows_) {
      const int64_t run_begin = key;
      const int64_t row = RowOf(keys_[key], payload_bits_);
      do {
        ++key;
      } while (key != end && RowOf(keys_[key], payload_bits_) == row);
      RowItem& item = batch.items[batch.count];
      item.row = row;
      if (key - run_begin == 1 && !task_.shape.weighted) {
        item.gradient = GradientOf(run_begin);
        for (int64_t c = 0; c < task_.table.dim; c += kLineFloats) hwy::Prefetch(item.gradient + c);
      } else {
        item.gradient = SumRun(run_begin, key, context_.scratch.Sum(first_sum + batch.count));
      }
      ++batch.count;
    }
    next_key_ = key;
  }

  // The canonical sum of occurrences [begin, end), in `sum`.
  HWY_INLINE const float* SumRun(int64_t begin, int64_t end, float* sum) {
    float* const part = context_.scratch[UpdateScratch::kChunk];
    for (int64_t first = begin; first < end; first += kChunk) {
      float* const out = first == begin ? sum : part;
      chunk_.count = std::min(kChunk, end - first);
      if (task_.shape.weighted) {
        for (int64_t i = 0; i < chunk_.count; ++i) {
          const PlanOccurrence& occurrence = occurrences_[PayloadOf(first + i)];
          chunk_.rows[i] = task_.grads + occurrence.slot * task_.grad_stride;
          chunk_.weights[i] = occurrence.weight;
        }
        SumChunk<true>(chunk_, task_.table.dim, out);
      } else {
        for (int64_t i = 0; i < chunk_.count; ++i) chunk_.rows[i] = GradientOf(first + i);
        SumChunk<false>(chunk_, task_.table.dim, out);
      }
      if (out == part) AddChunk(part, task_.table.dim, sum);
    }
    return sum;
  }

  HWY_INLINE int64_t PayloadOf(int64_t i) const {
    return static_cast<int64_t>(keys_[i] & ((Key{1} << payload_bits_) - 1));
  }
  HWY_INLINE const float* GradientOf(int64_t i) const { return task_.grads + PayloadOf(i) * task_.grad_stride; }

  const ReduceUpdateTask& task_;
  const Key* const keys_;
  const int payload_bits_;
  const PlanOccurrence* const occurrences_;
  const UpdateContext context_;
  const int64_t batch_rows_;
  const UpdateBatchFn update_batch_;
  int64_t next_key_ = 0;
  GradientChunk chunk_;
};

UpdateCounts RunPiece(const ReduceUpdateTask& task, int64_t begin, int64_t end, UpdateScratch scratch) {
  const PlanLayout layout(task.shape);
  UpdateCounts counts;
  VisitKeyType(layout, [&](auto key) { counts = PieceUpdate<decltype(key)>(task, layout, scratch).Run(begin, end); });
  return counts;
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embps::kernels::cpu {
HWY_EXPORT(RunPiece);
namespace {

// Where the run that contains key `index - 1` ends: a piece that would start inside a run starts behind it.
int64_t RunBoundary(const ReduceUpdateTask& task, int64_t index) {
  const int64_t count = task.shape.id_count;
  if (index == 0 || index == count) return index;
  const PlanLayout layout(task.shape);
  int64_t boundary = index;
  VisitKeyType(layout, [&](auto zero) {
    const auto* keys = static_cast<const decltype(zero)*>(task.plan);
    const int64_t row = RowOf(keys[index - 1], layout.payload_bits);
    boundary = std::partition_point(keys + index, keys + count,
                                    [&](auto key) { return RowOf(key, layout.payload_bits) == row; }) -
               keys;
  });
  return boundary;
}

void UpdatePiece(const ReduceUpdateTask& task, int64_t pieces, int64_t piece) {
  const int64_t count = task.shape.id_count;
  const int64_t begin = RunBoundary(task, count * piece / pieces);
  const int64_t end = RunBoundary(task, count * (piece + 1) / pieces);
  if (begin == end) return;
  auto* const scratch = static_cast<std::byte*>(task.workspace) + piece * UpdateScratch::BytesOf(task.table.dim);
  const UpdateCounts counts = HWY_DYNAMIC_DISPATCH(RunPiece)(task, begin, end, UpdateScratch(scratch, task.table.dim));
  const auto add = [](int64_t& to, int64_t value) {
    if (value != 0) std::atomic_ref<int64_t>(to).fetch_add(value, std::memory_order_relaxed);
  };
  add(task.counts->rows_updated, counts.rows_updated);
  add(task.counts->rows_overflowed, counts.rows_overflowed);
  add(task.counts->values_saturated, counts.values_saturated);
}

}  // namespace

int64_t ReduceUpdateWorkspaceBytes(const GradShape&, int32_t dim) {
  return PieceCutter::kMaxPieces * UpdateScratch::BytesOf(dim);
}

void ReduceUpdate(absl::Span<const ReduceUpdateTask> tasks, ParallelFor& parallel) {
  int64_t total_ids = 0;
  for (const ReduceUpdateTask& task : tasks) total_ids += task.shape.id_count;
  if (total_ids == 0) return;
  const int64_t workers = parallel.worker_count();
  const PieceCutter cutter(total_ids, workers == 1 ? 1 : workers * Policy().pieces_per_worker);
  int64_t pieces = 0;
  for (const ReduceUpdateTask& task : tasks) pieces += cutter.PiecesOf(task.shape.id_count);
  parallel.Run(pieces, [&](int64_t index) {
    for (const ReduceUpdateTask& task : tasks) {
      const int64_t task_pieces = cutter.PiecesOf(task.shape.id_count);
      if (index < task_pieces) return UpdatePiece(task, task_pieces, index);
      index -= task_pieces;
    }
  });
}

}  // namespace embps::kernels::cpu
#endif
