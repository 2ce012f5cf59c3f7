#include "kernels/cpu/grad_sort.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/grad_plan.h"
#include "kernels/cpu/policy.h"

namespace embps::kernels::cpu {
namespace {

constexpr int64_t kMaxPieces = PieceCutter::kMaxPieces;
constexpr int kMaxDigitBits = 12;
constexpr int kMaxHistogramEntries = 4 << kMaxDigitBits;
// Below this many keys a comparison sort is faster than clearing the histograms.
constexpr int64_t kSmallSort = 128;

GradShape ShapeOf(const GradSortTask& task) {
  return {task.id_count, task.slot_count, task.row_count, task.weights != nullptr};
}

// Head of a task's workspace: how it is split by row range. Piece p owns rows [row_begin[p], row_begin[p + 1]) and the
// keys [key_begin[p], key_begin[p + 1]) of the plan. The second key array of the radix passes follows.
struct SplitHeader {
  int64_t row_begin[kMaxPieces + 1];
  int64_t key_begin[kMaxPieces + 1];
  int64_t counts[kMaxPieces][kMaxPieces];  // [stripe of the ids][piece]
};
constexpr int64_t kHeaderBytes = (sizeof(SplitHeader) + 63) / 64 * 64;

struct RowRange {
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
};

struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The digits of one radix sort.
struct Digits {
  int passes = 0;
  int bits = 0;  // of each digit

  Digits(int row_bits, int64_t key_count) {
    if (row_bits == 0) return;
    const int useful_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(key_count)));
    const int widest = std::clamp(std::min<int>(Policy().sort_digit_bits, useful_bits), 8, kMaxDigitBits);
    passes = (row_bits + widest - 1) / widest;
    bits = (row_bits + passes - 1) / passes;
  }
  uint32_t mask() const { return (uint32_t{1} << bits) - 1; }
};

// Sorts the keys of one row range of one task.
template <class Key>
class PieceSorter {
 public:
  PieceSorter(const GradSortTask& task, const PlanLayout& layout)
      : task_(task),
        layout_(layout),
        plan_keys_(static_cast<Key*>(task.plan)),
        spare_keys_(reinterpret_cast<Key*>(static_cast<std::byte*>(task.workspace) + kHeaderBytes)),
        occurrences_(reinterpret_cast<PlanOccurrence*>(static_cast<std::byte*>(task.plan) + layout.keys_bytes)) {}

  void Sort(RowRange rows, KeyRange range) {
    const int64_t count = range.end - range.begin;
    if (count == 0) return;
    if (count <= kSmallSort) {
      Pack<0>(rows, range, plan_keys_, Digits(0, count), nullptr);
      // Equal keys are equal occurrences, so the whole key sorts as stably as the row bits would.
      std::sort(plan_keys_ + range.begin, plan_keys_ + range.end);
      return;
    }
    const Digits digits(layout_.row_bits, count);
    uint32_t histograms[kMaxHistogramEntries];
    EMBPS_CHECK((digits.passes << digits.bits) <= kMaxHistogramEntries);
    std::fill_n(histograms, digits.passes << digits.bits, 0u);
    // After an even number of passes the keys are back where they were packed.
    Key* from = digits.passes % 2 == 0 ? plan_keys_ : spare_keys_;
    Key* to = digits.passes % 2 == 0 ? spare_keys_ : plan_keys_;
    PackAndCount(rows, range, from, digits, histograms);
    for (int pass = 0; pass < digits.passes; ++pass) {
      Scatter(from, to, range, histograms + (pass << digits.bits), layout_.payload_bits + pass * digits.bits,
              digits.mask());
      std::swap(from, to);
    }
  }

 private:
  void PackAndCount(RowRange rows, KeyRange range, Key* keys, const Digits& digits, uint32_t* histograms) {
    switch (digits.passes) {
      case 0:
        return Pack<0>(rows, range, keys, digits, histograms);
      case 1:
        return Pack<1>(rows, range, keys, digits, histograms);
      case 2:
        return Pack<2>(rows, range, keys, digits, histograms);
      case 3:
        return Pack<3>(rows, range, keys, digits, histograms);
      default:
        return Pack<kAnyPasses>(rows, range, keys, digits, histograms);
    }
  }

  template <int kPasses>
  void Pack(RowRange rows, KeyRange range, Key* keys, const Digits& digits, uint32_t* histograms) {
    const bool whole_task = range.begin == 0 && range.end == task_.id_count;
    if (task_.weights == nullptr) {
      whole_task ? PackRange<kPasses, false, false>(rows, range, keys, digits, histograms)
                 : PackRange<kPasses, false, true>(rows, range, keys, digits, histograms);
    } else {
      whole_task ? PackRange<kPasses, true, false>(rows, range, keys, digits, histograms)
                 : PackRange<kPasses, true, true>(rows, range, keys, digits, histograms);
    }
  }

  // Writes the keys of `rows` in KJT order to keys[range] and counts every digit on the way.
  template <int kPasses, bool kWeighted, bool kFiltered>
  void PackRange(RowRange rows, KeyRange range, Key* keys, const Digits& digits, uint32_t* histograms) {
    const int passes = kPasses == kAnyPasses ? digits.passes : kPasses;
    const int bits = digits.bits, payload_bits = layout_.payload_bits;
    const uint32_t mask = digits.mask();
    const int64_t* const ids = task_.ids;
    const int64_t* const offsets = task_.offsets;
    const int64_t slot_count = task_.slot_count, key_end = range.end;
    int64_t k = range.begin;
    for (int64_t slot = 0; slot < slot_count; ++slot) {
      const int64_t end = offsets[slot + 1];
      for (int64_t i = offsets[slot]; i < end; ++i) {
        const int64_t row = ids[i];
        if (kFiltered) {
          if (k == key_end) return;
          if (row < rows.begin || row >= rows.end) continue;
        }
        if (kWeighted) occurrences_[i] = {static_cast<uint32_t>(slot), task_.weights[i]};
        keys[k++] = static_cast<Key>(row) << payload_bits | static_cast<Key>(kWeighted ? i : slot);
        for (int pass = 0; pass < passes; ++pass) {
          ++histograms[(pass << bits) + (static_cast<uint32_t>(row >> (pass * bits)) & mask)];
        }
      }
    }
  }

  static void Scatter(const Key* from, Key* to, KeyRange range, uint32_t* histogram, int shift, uint32_t mask) {
    uint32_t position = 0;
    for (uint32_t digit = 0; digit <= mask; ++digit) {
      const uint32_t count = histogram[digit];
      histogram[digit] = position;
      position += count;
    }
    Key* const target = to + range.begin;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Key key = from[i];
      target[histogram[static_cast<uint32_t>(key >> shift) & mask]++] = key;
    }
  }

  static constexpr int kAnyPasses = -1;
  const GradSortTask& task_;
  const PlanLayout& layout_;
  Key* const plan_keys_;
  Key* const spare_keys_;
  PlanOccurrence* const occurrences_;
};

SplitHeader& HeaderOf(const GradSortTask& task) { return *static_cast<SplitHeader*>(task.workspace); }

// Row ranges with about equal numbers of ids, from a sample of them.
void ChooseRowRanges(const GradSortTask& task, int64_t pieces) {
  constexpr int64_t kSamples = 512;
  int64_t sample[kSamples];
  for (int64_t i = 0; i < kSamples; ++i) sample[i] = task.ids[task.id_count * i / kSamples];
  std::sort(sample, sample + kSamples);
  SplitHeader& header = HeaderOf(task);
  header.row_begin[0] = 0;
  for (int64_t p = 1; p < pieces; ++p) header.row_begin[p] = sample[kSamples * p / pieces];
  header.row_begin[pieces] = std::numeric_limits<int64_t>::max();
}

// Counts the ids of one stripe of the task that fall into each piece.
void CountStripe(const GradSortTask& task, int64_t pieces, int64_t stripe) {
  SplitHeader& header = HeaderOf(task);
  int64_t below[kMaxPieces] = {};  // ids before the end of each piece
  const int64_t end = task.id_count * (stripe + 1) / pieces;
  for (int64_t i = task.id_count * stripe / pieces; i < end; ++i) {
    for (int64_t p = 0; p < pieces; ++p) below[p] += task.ids[i] < header.row_begin[p + 1];
  }
  for (int64_t p = 0; p < pieces; ++p) header.counts[stripe][p] = below[p] - (p == 0 ? 0 : below[p - 1]);
}

void SumStripes(const GradSortTask& task, int64_t pieces) {
  SplitHeader& header = HeaderOf(task);
  header.key_begin[0] = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    int64_t count = 0;
    for (int64_t stripe = 0; stripe < pieces; ++stripe) count += header.counts[stripe][p];
    header.key_begin[p + 1] = header.key_begin[p] + count;
  }
}

void SortPiece(const GradSortTask& task, int64_t pieces, int64_t piece) {
  RowRange rows;
  KeyRange keys{0, task.id_count};
  if (pieces > 1) {
    const SplitHeader& header = HeaderOf(task);
    rows = {header.row_begin[piece], header.row_begin[piece + 1]};
    keys = {header.key_begin[piece], header.key_begin[piece + 1]};
  }
  const PlanLayout layout(ShapeOf(task));
  VisitKeyType(layout, [&](auto key) { PieceSorter<decltype(key)>(task, layout).Sort(rows, keys); });
}

// Calls body(task, pieces, piece) for each piece of the tasks that `takes(pieces)` says.
template <class Takes, class Body>
void ForEachTaskPiece(absl::Span<const GradSortTask> tasks, const PieceCutter& cutter, ParallelFor& parallel,
                      Takes takes, Body body) {
  int64_t count = 0;
  for (const GradSortTask& task : tasks) {
    if (const int64_t pieces = cutter.PiecesOf(task.id_count); takes(pieces)) count += pieces;
  }
  if (count == 0) return;
  parallel.Run(count, [&](int64_t index) {
    for (const GradSortTask& task : tasks) {
      const int64_t pieces = cutter.PiecesOf(task.id_count);
      if (!takes(pieces)) continue;
      if (index < pieces) return body(task, pieces, index);
      index -= pieces;
    }
  });
}

}  // namespace

int64_t GradPlanBytes(const GradShape& shape) { return PlanLayout(shape).bytes(); }

int64_t GradSortWorkspaceBytes(const GradShape& shape) { return kHeaderBytes + PlanLayout(shape).keys_bytes; }

void GradSort(absl::Span<const GradSortTask> tasks, ParallelFor& parallel) {
  int64_t total_ids = 0;
  for (const GradSortTask& task : tasks) total_ids += task.id_count;
  // Every piece of a split task reads all of its ids, so a task is cut no finer than the workers ask for.
  const PieceCutter cutter(total_ids, parallel.worker_count());
  const auto is_split = [](int64_t pieces) { return pieces > 1; };
  for (const GradSortTask& task : tasks) {
    if (const int64_t pieces = cutter.PiecesOf(task.id_count); is_split(pieces)) ChooseRowRanges(task, pieces);
  }
  ForEachTaskPiece(tasks, cutter, parallel, is_split, CountStripe);
  for (const GradSortTask& task : tasks) {
    if (const int64_t pieces = cutter.PiecesOf(task.id_count); is_split(pieces)) SumStripes(task, pieces);
  }
  ForEachTaskPiece(
      tasks, cutter, parallel, [](int64_t) { return true; }, SortPiece);
}

void DistinctRows(absl::Span<const DistinctRowsTask> tasks, ParallelFor& parallel) {
  if (tasks.empty()) return;
  parallel.Run(static_cast<int64_t>(tasks.size()), [&](int64_t index) {
    const DistinctRowsTask& task = tasks[index];
    const PlanLayout layout(task.shape);
    VisitKeyType(layout, [&](auto zero) {
      const auto* keys = static_cast<const decltype(zero)*>(task.plan);
      int64_t count = 0;
      for (int64_t i = 0; i < task.shape.id_count; ++i) {
        const int64_t row = RowOf(keys[i], layout.payload_bits);
        if (count == 0 || task.rows[count - 1] != row) task.rows[count++] = row;
      }
      *task.count = count;
    });
  });
}

}  // namespace embps::kernels::cpu
