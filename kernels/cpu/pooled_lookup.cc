// pooled_lookup on the CPU.
//
// Parallel over pieces of (task, bag range). A bag's sum stays in registers: up to 16 vectors of columns at a time,
// wider rows in several such groups of columns. Rows are requested from memory a fixed number of ids ahead, across bag
// boundaries, with the prefetches spread between the additions: some CPUs drop prefetches that come in a burst.
// Bytes moved: N * D * item size read, B * D * item size written. Same bits for any cut and any dispatch target.
#include "kernels/cpu/pooled_lookup.h"

#include <algorithm>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/policy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pooled_lookup.cc"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kFoldChunk = 256;  // ids per chunk of the canonical order

// One group of columns of a range of bags; copied to locals so that the compiler can keep it in registers.
struct ColumnGroup {
  const PooledLookupTask* task;
  int64_t last_id;  // the look-ahead stops here
  int64_t ahead;    // ids
  int64_t column;   // first of the group
  int64_t tail;     // of the group's last vector, from `column`
  bool stream;      // output bypasses the cache
};

// RowPrefetch as code.
struct LinesToL2 {
  static constexpr int kStepBytes = 64;
  static HWY_INLINE void Request(const void* line) { __builtin_prefetch(line, 0, 2); }
};
struct PairsToL1 {
  static constexpr int kStepBytes = 128;
  static HWY_INLINE void Request(const void* line) { __builtin_prefetch(line, 0, 3); }
};

template <class T>
struct BagInputs {
  const T* rows;  // at the group's first column
  int64_t dim;
  const int64_t* ids;
  const float* weights;
  int64_t last_id;
  int64_t ahead;
  int64_t tail;
};

// The fold of ids [begin, end), at most one chunk, from +0 over kVectors vectors of columns. A weight of 1 changes no
// bit, so code for weights serves bags without where speed does not matter.
template <int kVectors, bool kWeighted, class Mode, class D, class T>
HWY_INLINE void SumChunk(D d, const BagInputs<T>& in, int64_t begin, int64_t end, hn::Vec<D>* sums) {
  constexpr int kElements = static_cast<int>(hn::MaxLanes(D()));
  constexpr int kBytes = kElements * static_cast<int>(sizeof(T));
  constexpr int kEvery = Mode::kStepBytes > kBytes ? Mode::kStepBytes / kBytes : 1;
  HWY_UNROLL(16)
  for (int v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  for (int64_t j = begin; j < end; ++j) {
    const T* const row = in.rows + in.ids[j] * in.dim;
    const auto* const next =
        reinterpret_cast<const char*>(in.rows + in.ids[std::min(j + in.ahead, in.last_id)] * in.dim);
    const auto weight = hn::Set(d, kWeighted && in.weights != nullptr ? in.weights[j] : 1.0f);
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) {
      if (v % kEvery == 0) {
        HWY_FENCE;
        Mode::Request(next + v * kBytes);
        HWY_FENCE;
      }
      auto value = LoadElements(d, row + (v + 1 < kVectors ? v * kElements : in.tail));
      if (kWeighted) value = hn::Mul(value, weight);
      sums[v] = hn::Add(sums[v], value);
    }
  }
}

// The same out of line, for long bags. Inlined a second time it slows short bags by a tenth.
template <int kVectors, bool kWeighted, class Mode, class D, class T>
HWY_NOINLINE void SumChunkToMemory(D d, const BagInputs<T>& in, int64_t begin, int64_t end, hn::Vec<D>* sums) {
  hn::Vec<D> chunk[kVectors];
  SumChunk<kVectors, kWeighted, Mode>(d, in, begin, end, chunk);
  for (int v = 0; v < kVectors; ++v) sums[v] = chunk[v];
}

// The fold of a bag: its chunk sums, added in order.
template <int kVectors, bool kWeighted, class Mode, class D, class T>
HWY_INLINE void SumBag(D d, const BagInputs<T>& in, int64_t begin, int64_t end, hn::Vec<D>* sums) {
  if (end - begin <= kFoldChunk) return SumChunk<kVectors, kWeighted, Mode>(d, in, begin, end, sums);
  hn::Vec<D> total[kVectors], chunk[kVectors];
  SumChunkToMemory<kVectors, kWeighted, Mode>(d, in, begin, begin + kFoldChunk, total);
  for (int64_t at = begin + kFoldChunk; at < end; at += kFoldChunk) {
    SumChunkToMemory<kVectors, kWeighted, Mode>(d, in, at, std::min(at + kFoldChunk, end), chunk);
    for (int v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], chunk[v]);
  }
  for (int v = 0; v < kVectors; ++v) sums[v] = total[v];
}

// Sums as fp32 in memory -> 16-bit output.
template <class D, class Out>
HWY_NOINLINE void StoreConverted(D d, const float* from, int count, int64_t tail, Out* out) {
  const int elements = static_cast<int>(hn::MaxLanes(D()));
  for (int v = 0; v < count; ++v) {
    StoreElements(hn::LoadU(d, from + v * elements), d, out + (v + 1 < count ? v * elements : tail));
  }
}

template <int kVectors, class D>
HWY_INLINE void StoreBag(D d, const hn::Vec<D>* sums, const ColumnGroup& group, ElementType type, void* row) {
  constexpr int kElements = static_cast<int>(hn::MaxLanes(D()));
  if (type == ElementType::kFp32) {
    float* const out = static_cast<float*>(row) + group.column;
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) {
      float* const to = out + (v + 1 < kVectors ? v * kElements : group.tail);
      if (group.stream) {
        hn::Stream(sums[v], d, to);
      } else {
        hn::StoreU(sums[v], d, to);
      }
    }
    return;
  }
  alignas(64) float buffer[kVectors * kElements];
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, buffer + v * kElements);
  if (type == ElementType::kFp16) {
    StoreConverted(d, buffer, kVectors, group.tail, static_cast<Half*>(row) + group.column);
  } else {
    StoreConverted(d, buffer, kVectors, group.tail, static_cast<Bfloat*>(row) + group.column);
  }
}

// kVectors vectors of columns of bags [bag_begin, bag_end).
template <int kVectors, bool kWeighted, class Mode, class D, class T>
HWY_NOINLINE void PoolBags(const ColumnGroup group, int64_t bag_begin, int64_t bag_end) {
  const D d;
  const PooledLookupTask& task = *group.task;
  const BagInputs<T> in = {.rows = static_cast<const T*>(task.table.rows) + group.column,
                           .dim = task.table.dim,
                           .ids = task.ids,
                           .weights = task.weights,
                           .last_id = group.last_id,
                           .ahead = group.ahead,
                           .tail = group.tail};
  const int64_t* const offsets = task.offsets;
  const int64_t* const divisors = task.divisors;
  const ElementType out_type = task.out_type;
  const bool divide_by_length = task.divide_by_length;
  const int64_t stride_bytes = task.out_stride * ElementBytes(out_type);
  char* out = static_cast<char*>(task.out) + bag_begin * stride_bytes;
  for (int64_t b = bag_begin; b < bag_end; ++b, out += stride_bytes) {
    const int64_t begin = offsets[b], end = offsets[b + 1];
    hn::Vec<D> sums[kVectors];
    SumBag<kVectors, kWeighted, Mode>(d, in, begin, end, sums);
    const int64_t divisor = divide_by_length ? end - begin : divisors != nullptr ? divisors[b] : 1;
    if (divisor > 1) {
      const auto by = hn::Set(d, static_cast<float>(divisor));
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v) sums[v] = hn::Div(sums[v], by);
    }
    StoreBag<kVectors>(d, sums, group, out_type, out);
  }
}

// Vectors of a group: what fits the registers beside what a load needs, and fewer on targets that are slow anyway.
template <bool kWeighted, class T>
constexpr int MaxGroup() {
  if (HWY_TARGET == HWY_AVX3) return 16;
  if (HWY_TARGET == HWY_AVX2) return kWeighted || sizeof(T) != 4 ? 8 : 16;
  return 4;
}

// Runs a group of `vectors`: 16, 8, 4, 2 or 1, at most kMax.
template <int kMax, bool kWeighted, class Mode, class T>
HWY_INLINE void PoolGroup(const ColumnGroup& group, int vectors, int64_t bag_begin, int64_t bag_end) {
  if constexpr (kMax > 1) {
    if (vectors < kMax) return PoolGroup<kMax / 2, kWeighted, Mode, T>(group, vectors, bag_begin, bag_end);
  }
  PoolBags<kMax, kWeighted, Mode, FullTag, T>(group, bag_begin, bag_end);
}

// Rows of at least one full vector.
template <bool kWeighted, class Mode, class T>
HWY_NOINLINE void PoolWideRows(ColumnGroup group, int64_t bag_begin, int64_t bag_end) {
  const int dim = group.task->table.dim;
  const int vectors = VectorCount(dim, kLanes);
  // Rows wider than one group are passed over once per group: few ids at a time, so that they stay in the cache.
  constexpr int64_t kWideBlockIds = 16;
  const bool one_group = vectors <= MaxGroup<kWeighted, T>() && (vectors & (vectors - 1)) == 0;
  for (int64_t b = bag_begin; b < bag_end;) {
    int64_t block_end = bag_end;
    if (!one_group) {
      const int64_t first = group.task->offsets[b];
      for (block_end = b + 1; block_end < bag_end && block_end - b < kWideBlockIds; ++block_end) {
        if (group.task->offsets[block_end + 1] - first > kWideBlockIds) break;
      }
    }
    for (int v = 0; v < vectors;) {
      int count = MaxGroup<kWeighted, T>();
      while (count > vectors - v) count /= 2;
      group.column = v * kLanes;
      group.tail = VectorColumn(v + count - 1, dim, kLanes) - group.column;
      PoolGroup<MaxGroup<kWeighted, T>(), kWeighted, Mode, T>(group, count, b, block_end);
      v += count;
    }
    b = block_end;
  }
}

// Rows narrower than a vector: one or two vectors of the largest power of two that fits.
template <int kElements, class T>
HWY_INLINE void PoolNarrowRows(ColumnGroup group, int64_t bag_begin, int64_t bag_end) {
  using D = hn::CappedTag<float, kElements>;
  const int dim = group.task->table.dim;
  if constexpr (kElements > 1) {
    if (dim < kElements) return PoolNarrowRows<kElements / 2, T>(group, bag_begin, bag_end);
  }
  group.column = 0;
  group.tail = dim - kElements;
  group.stream = false;
  if (dim == kElements) {
    PoolBags<1, true, LinesToL2, D, T>(group, bag_begin, bag_end);
  } else {
    PoolBags<2, true, LinesToL2, D, T>(group, bag_begin, bag_end);
  }
}

// Code is generated for what its target meets: requests in pairs on AVX2 (Zen 1 and 2), code of its own for bags
// without weights on AVX2 and AVX3.
constexpr bool kFastTarget = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2;

template <bool kWeighted, class T>
void PoolRows(const ColumnGroup& group, int64_t bag_begin, int64_t bag_end) {
  if constexpr (HWY_TARGET == HWY_AVX2) {
    if (Policy().row_prefetch == RowPrefetch::kPairsToL1) {
      return PoolWideRows<kWeighted, PairsToL1, T>(group, bag_begin, bag_end);
    }
  }
  PoolWideRows<kWeighted, LinesToL2, T>(group, bag_begin, bag_end);
}

template <class T>
void PoolRange(const ColumnGroup& group, int64_t bag_begin, int64_t bag_end) {
  if constexpr (kLanes > 1) {
    if (group.task->table.dim < kLanes) return PoolNarrowRows<kLanes / 2, T>(group, bag_begin, bag_end);
  }
  if constexpr (kFastTarget) {
    if (group.task->weights == nullptr) return PoolRows<false, T>(group, bag_begin, bag_end);
  }
  PoolRows<true, T>(group, bag_begin, bag_end);
}

void PoolPiece(const PooledLookupTask& task, int64_t bag_begin, int64_t bag_end, bool stream) {
  const int64_t first_id = task.offsets[bag_begin], end_id = task.offsets[bag_end];
  ColumnGroup group = {.task = &task,
                       .last_id = end_id - 1,
                       .ahead = Policy().lookup_ahead_rows,
                       .column = 0,
                       .tail = 0,
                       .stream = stream && task.out_type == ElementType::kFp32 &&
                                 IsVectorAligned(task.out, task.out_stride, task.table.dim)};
  // The first rows of a piece have nobody ahead of them.
  const int64_t row_bytes = task.table.dim * ElementBytes(task.table.type);
  const auto* const rows = static_cast<const char*>(task.table.rows);
  for (int64_t j = first_id; j < std::min(first_id + group.ahead, end_id); ++j) {
    for (int64_t at = 0; at < std::min<int64_t>(row_bytes, 1024); at += 64) {
      hwy::Prefetch(rows + task.ids[j] * row_bytes + at);
    }
  }
  switch (task.table.type) {
    case ElementType::kFp32:
      PoolRange<float>(group, bag_begin, bag_end);
      break;
    case ElementType::kFp16:
      PoolRange<Half>(group, bag_begin, bag_end);
      break;
    case ElementType::kBf16:
      PoolRange<Bfloat>(group, bag_begin, bag_end);
      break;
  }
  if (group.stream) hwy::FlushStream();
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embps::kernels::cpu {
namespace {
HWY_EXPORT(PoolPiece);

// What a task costs: its ids, and a little per bag.
int64_t UnitsBefore(const PooledLookupTask& task, int64_t bag) {
  return task.bag_count == 0 ? 0 : task.offsets[bag] - task.offsets[0] + bag;
}

// The first bag that does not begin before `unit`.
int64_t BagAt(const PooledLookupTask& task, int64_t unit) {
  int64_t low = 0, high = task.bag_count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (UnitsBefore(task, middle) < unit) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

void PooledLookup(absl::Span<const PooledLookupTask> tasks, ParallelFor& parallel) {
  constexpr int64_t kMinPieceUnits = 512;
  int64_t out_bytes = 0;
  for (const PooledLookupTask& task : tasks) out_bytes += task.bag_count * task.table.dim * int64_t{4};
  const bool stream = out_bytes >= Policy().streaming_output_bytes;
  ForEachPiece(
      tasks, parallel, kMinPieceUnits, [](const PooledLookupTask& task) { return UnitsBefore(task, task.bag_count); },
      [stream](const PooledLookupTask& task, int64_t begin, int64_t end) {
        const int64_t bag_begin = BagAt(task, begin), bag_end = BagAt(task, end);
        if (bag_begin < bag_end) HWY_DYNAMIC_DISPATCH(PoolPiece)(task, bag_begin, bag_end, stream);
      });
}

}  // namespace embps::kernels::cpu
#endif  // HWY_ONCE
