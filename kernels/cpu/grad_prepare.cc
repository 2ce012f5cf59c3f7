// grad_prepare on the CPU: one pass over the gradients, in place. Parallel over ranges of slots.
#include "kernels/cpu/grad_prepare.h"

#include <algorithm>

#include "kernels/cpu/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/grad_prepare.cc"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

// The steps are element-wise: any tag gives the same bits.
template <class D>
HWY_INLINE hn::Vec<D> PrepareVector(D d, hn::Vec<D> g, float scale, float limit, float divisor) {
  g = hn::Mul(g, hn::Set(d, scale));
  if (limit > 0) {
    const auto high = hn::Set(d, limit), low = hn::Neg(high);
    g = hn::IfThenElse(hn::Gt(g, high), high, hn::IfThenElse(hn::Lt(g, low), low, g));
  }
  return divisor == 1.0f ? g : hn::Div(g, hn::Set(d, divisor));
}

void PrepareSlots(const GradPrepareTask& task, int64_t begin, int64_t end) {
  const FullTag d;
  const hn::CappedTag<float, 1> one;
  const int64_t dim = task.dim;
  for (int64_t slot = begin; slot < end; ++slot) {
    const int64_t length = task.divisors == nullptr ? 1 : std::max<int64_t>(task.divisors[slot], 1);
    const auto divisor = static_cast<float>(length);
    float* const row = task.grads + slot * dim;
    int64_t column = 0;
    for (; column + kLanes <= dim; column += kLanes) {
      hn::StoreU(PrepareVector(d, hn::LoadU(d, row + column), task.scale, task.max_gradient, divisor), d, row + column);
    }
    for (; column < dim; ++column) {
      hn::StoreU(PrepareVector(one, hn::LoadU(one, row + column), task.scale, task.max_gradient, divisor), one,
                 row + column);
    }
  }
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embps::kernels::cpu {
HWY_EXPORT(PrepareSlots);

void GradPrepare(absl::Span<const GradPrepareTask> tasks, ParallelFor& parallel) {
  constexpr int64_t kMinSlots = 256;
  const auto units = [](const GradPrepareTask& task) {
    const bool identity = task.scale == 1.0f && task.max_gradient == 0.0f && task.divisors == nullptr;
    return identity ? int64_t{0} : task.slot_count;
  };
  ForEachPiece(tasks, parallel, kMinSlots, units, [](const GradPrepareTask& task, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(PrepareSlots)(task, begin, end);
  });
}

}  // namespace embps::kernels::cpu
#endif
