// reduce_partials on the CPU: partial sums of W ranks, added in rank order, divided, converted.
//
// Parallel over pieces of bags. Bytes moved: W * B * D * 4 read, B * D * item size written. Same bits for any cut.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/pooled_lookup.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_partials.cc"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

template <class Out>
void ReduceRange(const ReducePartialsTask& task, int64_t begin, int64_t end) {
  const int32_t dim = task.dim;
  for (int64_t b = begin; b < end; ++b) {
    const int64_t divisor = task.divisors != nullptr ? task.divisors[b] : 1;
    Out* const out = static_cast<Out*>(task.out) + b * task.out_stride;
    ForEachVector(dim, [&](auto d, int32_t column) HWY_ATTR {
      const int64_t at = b * dim + column;
      auto sum = hn::LoadU(d, task.parts[0] + at);
      for (int32_t part = 1; part < task.part_count; ++part) sum = hn::Add(sum, hn::LoadU(d, task.parts[part] + at));
      if (divisor > 1) sum = hn::Div(sum, hn::Set(d, static_cast<float>(divisor)));
      StoreElements(sum, d, out + column);
    });
  }
}

void ReducePiece(const ReducePartialsTask& task, int64_t begin, int64_t end) {
  WithElementType(task.out_type,
                  [&](auto* out) { ReduceRange<std::remove_pointer_t<decltype(out)>>(task, begin, end); });
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embps::kernels::cpu {
namespace {
HWY_EXPORT(ReducePiece);
}  // namespace

void ReducePartials(absl::Span<const ReducePartialsTask> tasks, ParallelFor& parallel) {
  // Units are elements read: tasks of different widths weigh what they cost. A bag belongs to the piece it begins in.
  constexpr int64_t kMinPieceElements = 1 << 14;
  const auto bag_elements = [](const ReducePartialsTask& task) {
    return std::max<int64_t>(int64_t{task.dim} * task.part_count, 1);
  };
  ForEachPiece(
      tasks, parallel, kMinPieceElements,
      [=](const ReducePartialsTask& task) { return task.bag_count * bag_elements(task); },
      [=](const ReducePartialsTask& task, int64_t begin, int64_t end) {
        const int64_t size = bag_elements(task);
        HWY_DYNAMIC_DISPATCH(ReducePiece)(task, (begin + size - 1) / size, (end + size - 1) / size);
      });
}

}  // namespace embps::kernels::cpu
#endif  // HWY_ONCE
