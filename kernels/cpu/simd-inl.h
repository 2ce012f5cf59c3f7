// Vectors of fp32 that rows of any storage type are read into and written from; compiled once per dispatch target.
//
// Columns are independent of each other in every lookup and element-wise update, so a row whose width is not a multiple
// of the vector is covered by one more vector that ends at the row's end and overlaps the one before: no masks, no
// element beyond the row is touched, and the overlapped columns get the same bits twice.
#if defined(EMBPS_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBPS_KERNELS_CPU_SIMD_INL_H_
#undef EMBPS_KERNELS_CPU_SIMD_INL_H_
#else
#define EMBPS_KERNELS_CPU_SIMD_INL_H_
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/elements.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// F16C converts in hardware from AVX2 on; smaller target values are better targets.
#define EMBPS_HAS_F16C (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

using FullTag = hn::ScalableTag<float>;
// Lanes of a full vector; a compile-time constant on all targets that are compiled.
constexpr int32_t kLanes = static_cast<int32_t>(hn::MaxLanes(FullTag()));

template <class D>
using U16 = hn::Rebind<uint16_t, D>;
template <class D>
using U32 = hn::RebindToUnsigned<D>;
template <class D>
using I32 = hn::RebindToSigned<D>;

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const Bfloat* from) {
  const auto bits = hn::PromoteTo(U32<D>(), hn::LoadU(U16<D>(), &from->bits));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const Half* from) {
#if EMBPS_HAS_F16C
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  const U32<D> du;
  const auto bits = hn::PromoteTo(du, hn::LoadU(U16<D>(), &from->bits));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
  // As fp32 the exponent is 112 too small, also for subnormals: the product is exact.
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f)));
  const auto special = hn::Or(shifted, hn::Set(du, 0x7f800000u));  // Inf and NaN
  const auto is_special = hn::Gt(hn::BitCast(I32<D>(), shifted), hn::Set(I32<D>(), 0x0f7fffff));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(hn::RebindMask(du, is_special), special, finite)));
#endif
}

// To nearest even, as proto/base/float16.h: NaN stays NaN, overflow becomes Inf.
template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, float* to) {
  hn::StoreU(v, d, to);
}

template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, Bfloat* to) {
  const U32<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
  const auto result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(U16<D>(), hn::BitCast(I32<D>(), result)), U16<D>(), &to->bits);
}

template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, Half* to) {
#if EMBPS_HAS_F16C
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(to));
#else
  const U32<D> du;
  const I32<D> di;
  const auto bits = hn::BitCast(du, v);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto signed_magnitude = hn::BitCast(di, magnitude);
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  auto result =
      hn::ShiftRight<13>(hn::Sub(hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0xfffu))), hn::Set(du, 0x38000000u)));
  // Below 2^-14 the sum with 0.5 rounds to units of 2^-24, which then stand in the low bits.
  const auto units =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f))), hn::Set(du, 0x3f000000u));
  const auto small = hn::Lt(signed_magnitude, hn::Set(di, 0x38800000));
  result = hn::IfThenElse(hn::RebindMask(du, small), units, result);
  const auto large = hn::Gt(signed_magnitude, hn::Set(di, 0x477fffff));
  result = hn::IfThenElse(hn::RebindMask(du, large), hn::Set(du, 0x7c00u), result);
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ffu));
  const auto nan = hn::Or(hn::Set(du, 0x7e00u), payload);
  result = hn::IfThenElse(hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x7f800000))), nan, result);
  hn::StoreU(hn::DemoteTo(U16<D>(), hn::BitCast(di, hn::Or(sign, result))), U16<D>(), &to->bits);
#endif
}

// The largest finite value of a storage type.
template <class T>
HWY_INLINE float LargestFinite();
template <>
HWY_INLINE float LargestFinite<Half>() {
  return 65504.0f;
}
template <>
HWY_INLINE float LargestFinite<Bfloat>() {
  return 0x1.fep127f;
}

// To nearest even; what would overflow is held at the largest finite value of T, Inf too. NaN stays NaN.
template <class D, class T>
HWY_INLINE void StoreElementsSaturating(hn::Vec<D> v, D d, T* to) {
  const auto limit = hn::Set(d, LargestFinite<T>());
  const auto held = hn::Max(hn::Min(v, limit), hn::Neg(limit));
  StoreElements(hn::IfThenElse(hn::IsNaN(v), v, held), d, to);
}
template <class D>
HWY_INLINE void StoreElementsSaturating(hn::Vec<D> v, D d, float* to) {
  hn::StoreU(v, d, to);
}

// Columns of the vectors that cover a row of `dim` >= lanes elements: 0, lanes, 2 * lanes, ... and last dim - lanes.
HWY_INLINE int32_t VectorCount(int32_t dim, int32_t lanes) { return (dim + lanes - 1) / lanes; }
HWY_INLINE int32_t VectorColumn(int32_t index, int32_t dim, int32_t lanes) {
  const int32_t column = index * lanes;
  return column + lanes <= dim ? column : dim - lanes;
}

template <int kElements, class F>
HWY_INLINE void ForEachNarrowVector(int32_t dim, F& f) {
  if constexpr (kElements > 1) {
    if (dim < kElements) return ForEachNarrowVector<kElements / 2>(dim, f);
  }
  const hn::CappedTag<float, kElements> d;
  f(d, int32_t{0});
  if (dim > kElements) f(d, dim - kElements);
}

// Calls f(tag, column) for vectors that cover a row of any width; some columns may be covered twice. Mark lambdas with
// HWY_ATTR.
template <class F>
HWY_INLINE void ForEachVector(int32_t dim, F f) {
  if constexpr (kLanes > 1) {
    if (dim < kLanes) return ForEachNarrowVector<kLanes / 2>(dim, f);
  }
  const FullTag d;
  int32_t column = 0;
  for (; column + kLanes <= dim; column += kLanes) f(d, column);
  if (column < dim) f(d, dim - kLanes);
}

// Whether every full vector of fp32 rows at `rows` stands where a streaming store may write.
HWY_INLINE bool IsVectorAligned(const void* rows, int64_t stride_elements, int32_t dim) {
  constexpr int64_t kVectorBytes = kLanes * int64_t{sizeof(float)};
  return dim % kLanes == 0 && reinterpret_cast<intptr_t>(rows) % kVectorBytes == 0 &&
         stride_elements * int64_t{sizeof(float)} % kVectorBytes == 0;
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
