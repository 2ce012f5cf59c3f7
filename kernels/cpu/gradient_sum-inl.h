// Sums of the gradient rows of one run of occurrences in canonical order. Compiled once per dispatch target.
#if defined(EMBPS_KERNELS_CPU_GRADIENT_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBPS_KERNELS_CPU_GRADIENT_SUM_INL_H_
#undef EMBPS_KERNELS_CPU_GRADIENT_SUM_INL_H_
#else
#define EMBPS_KERNELS_CPU_GRADIENT_SUM_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

// Occurrences per chunk of the canonical order.
constexpr int64_t kChunk = 256;

// At most one chunk of occurrences: where their gradient rows lie, and their weights if the task has any.
struct GradientChunk {
  int64_t count = 0;
  const float* rows[kChunk];
  float weights[kChunk];
};

// out[column ...] = left fold over the chunk, from its first term, of kVectors vectors.
template <int kVectors, bool kWeighted, class D>
HWY_INLINE void SumColumns(D d, const GradientChunk& chunk, int64_t column, float* out) {
  constexpr int64_t kWidth = static_cast<int64_t>(hn::MaxLanes(D()));
  hn::Vec<D> sums[kVectors];
  const auto term = [&](int64_t i, int v) HWY_ATTR {
    const auto g = hn::LoadU(d, chunk.rows[i] + column + v * kWidth);
    return kWeighted ? hn::Mul(hn::Set(d, chunk.weights[i]), g) : g;
  };
  HWY_UNROLL(16)
  for (int v = 0; v < kVectors; ++v) sums[v] = term(0, v);
  for (int64_t i = 1; i < chunk.count; ++i) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], term(i, v));
  }
  HWY_UNROLL(16)
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, out + column + v * kWidth);
}

// As many groups of kVectors vectors as fit from `column`.
template <int kVectors, bool kWeighted, class D>
HWY_INLINE int64_t SumGroups(D d, const GradientChunk& chunk, int64_t column, int64_t dim, float* out) {
  constexpr int64_t kWidth = kVectors * static_cast<int64_t>(hn::MaxLanes(D()));
  for (; column + kWidth <= dim; column += kWidth) SumColumns<kVectors, kWeighted>(d, chunk, column, out);
  return column;
}

// out[0 .. D) = fold of one chunk. Columns are independent, so any grouping of them gives the same bits.
template <bool kWeighted>
HWY_NOINLINE void SumChunk(const GradientChunk& chunk, int64_t dim, float* out) {
  const FullTag d;
  int64_t column = 0;
  if constexpr (kLanes >= 16) column = SumGroups<16, kWeighted>(d, chunk, column, dim, out);
  column = SumGroups<8, kWeighted>(d, chunk, column, dim, out);
  column = SumGroups<4, kWeighted>(d, chunk, column, dim, out);
  column = SumGroups<1, kWeighted>(d, chunk, column, dim, out);
  column = SumGroups<1, kWeighted>(hn::CappedTag<float, 4>(), chunk, column, dim, out);
  SumGroups<1, kWeighted>(hn::CappedTag<float, 1>(), chunk, column, dim, out);
}

// sum += chunk, both padded to whole vectors.
HWY_INLINE void AddChunk(const float* chunk, int64_t dim, float* sum) {
  const FullTag d;
  for (int64_t column = 0; column < dim; column += kLanes) {
    hn::Store(hn::Add(hn::Load(d, sum + column), hn::Load(d, chunk + column)), d, sum + column);
  }
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
