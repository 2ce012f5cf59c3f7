// sequence_lookup on the CPU: rows in id order, converted to the output type.
//
// Parallel over pieces of ids. Bytes moved: N * D * item size read and written. Deterministic: each output row has one
// writer and one source.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/policy.h"
#include "kernels/cpu/pooled_lookup.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sequence_lookup.cc"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

// The rows of ids [begin, end) as Out. kStream: outputs are aligned fp32 and bypass the cache.
template <class In, class Out, bool kStream>
void CopyRange(const SequenceLookupTask& task, int64_t begin, int64_t end) {
  const int32_t dim = task.table.dim;
  const auto* const rows = static_cast<const In*>(task.table.rows);
  auto* const out = static_cast<Out*>(task.out);
  const int64_t ahead = Policy().lookup_ahead_rows;
  for (int64_t i = begin; i < end; ++i) {
    const auto* const next =
        reinterpret_cast<const char*>(rows + std::max<int64_t>(task.ids[std::min(i + ahead, end - 1)], 0) * dim);
    for (int64_t at = 0; at < dim * int64_t{sizeof(In)}; at += 64) hwy::Prefetch(next + at);
    Out* const to = out + i * task.out_stride;
    if (task.ids[i] < 0) {
      std::memset(to, 0, dim * sizeof(Out));
      continue;
    }
    const In* const row = rows + task.ids[i] * dim;
    ForEachVector(dim, [&](auto d, int32_t column) HWY_ATTR {
      const auto value = LoadElements(d, row + column);
      if constexpr (kStream) {
        hn::Stream(value, d, to + column);
      } else {
        StoreElements(value, d, to + column);
      }
    });
  }
}

void SequencePiece(const SequenceLookupTask& task, int64_t begin, int64_t end, bool stream) {
  stream = stream && IsVectorAligned(task.out, task.out_stride, task.table.dim);
  WithElementType(task.table.type, [&](auto* in) {
    using In = std::remove_pointer_t<decltype(in)>;
    switch (task.out_type) {
      case ElementType::kFp32:
        return stream ? CopyRange<In, float, true>(task, begin, end) : CopyRange<In, float, false>(task, begin, end);
      case ElementType::kFp16:
        return CopyRange<In, Half, false>(task, begin, end);
      case ElementType::kBf16:
        return CopyRange<In, Bfloat, false>(task, begin, end);
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embps::kernels::cpu {
namespace {
HWY_EXPORT(SequencePiece);
}  // namespace

void SequenceLookup(absl::Span<const SequenceLookupTask> tasks, ParallelFor& parallel) {
  constexpr int64_t kMinPieceIds = 512;
  int64_t out_bytes = 0;
  for (const SequenceLookupTask& task : tasks)
    out_bytes += task.id_count * task.table.dim * ElementBytes(task.out_type);
  const bool stream = out_bytes >= Policy().streaming_output_bytes;
  ForEachPiece(
      tasks, parallel, kMinPieceIds, [](const SequenceLookupTask& task) { return task.id_count; },
      [stream](const SequenceLookupTask& task, int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(SequencePiece)(task, begin, end, stream);
      });
}

}  // namespace embps::kernels::cpu
#endif  // HWY_ONCE
