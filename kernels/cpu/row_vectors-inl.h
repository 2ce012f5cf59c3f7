// Arrays of vectors over a row of any D, and the halving tree over them. Compiled once per dispatch target.
#if defined(EMBPS_KERNELS_CPU_ROW_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBPS_KERNELS_CPU_ROW_VECTORS_INL_H_
#undef EMBPS_KERNELS_CPU_ROW_VECTORS_INL_H_
#else
#define EMBPS_KERNELS_CPU_ROW_VECTORS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

using VF = hn::Vec<FullTag>;

struct VectorMath {
  using V = VF;
  static HWY_INLINE V Set(float x) { return hn::Set(FullTag(), x); }
  static HWY_INLINE V Add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V Sub(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V Mul(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE V Div(V a, V b) { return hn::Div(a, b); }
  static HWY_INLINE V Sqrt(V a) { return hn::Sqrt(a); }
};

// The first `count` elements, then zeros.
template <class T>
HWY_INLINE VF LoadSome(const T* from, int64_t count) {
  const FullTag d;
  if (count >= kLanes) return LoadElements(d, from);
  alignas(64) T some[kLanes] = {};
  std::memcpy(some, from, count * sizeof(T));
  return LoadElements(d, some);
}

template <class T, class Store>
HWY_INLINE void StoreSome(T* to, int64_t count, Store store) {
  if (count >= kLanes) return store(to);
  alignas(64) T some[kLanes];
  store(some);
  std::memcpy(to, some, count * sizeof(T));
}

// An array of vectors over D: kVectors of them in registers, or (0) any number in scratch.
template <int kVectors>
class RowVectors {
 public:
  explicit RowVectors(float*) {}
  HWY_INLINE VF Get(int64_t i) const { return vectors_[i]; }
  HWY_INLINE void Set(int64_t i, VF v) { vectors_[i] = v; }

 private:
  VF vectors_[kVectors];
};
template <>
class RowVectors<0> {
 public:
  explicit RowVectors(float* scratch) : scratch_(scratch) {}
  HWY_INLINE VF Get(int64_t i) const { return hn::Load(FullTag(), scratch_ + i * kLanes); }
  HWY_INLINE void Set(int64_t i, VF v) { hn::Store(v, FullTag(), scratch_ + i * kLanes); }

 private:
  float* scratch_;
};

// a[j] += a[j + lanes / 2], then lanes / 4, ... down to one lane.
template <class D>
HWY_INLINE float HalvingLaneSum(D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(v);
#else
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return HalvingLaneSum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    v = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  }
#endif
}

// The halving tree over `count` vectors of terms >= 0, which it overwrites. Absent terms count as +0: adding it to a
// term changes nothing.
template <int kVectors>
HWY_INLINE float HalvingSum(RowVectors<kVectors>& terms, int64_t count) {
  if constexpr (kVectors > 0) {
    static_assert(std::has_single_bit(static_cast<unsigned>(kVectors)));
    HWY_UNROLL(8)
    for (int half = kVectors / 2; half >= 1; half /= 2) {
      HWY_UNROLL(16)
      for (int i = 0; i < half; ++i) terms.Set(i, hn::Add(terms.Get(i), terms.Get(i + half)));
    }
  } else {
    for (auto half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)) / 2); half >= 1; half /= 2) {
      for (int64_t i = 0; i + half < count; ++i) terms.Set(i, hn::Add(terms.Get(i), terms.Get(i + half)));
      count = std::min(count, half);
    }
  }
  return HalvingLaneSum(FullTag(), terms.Get(0));
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
