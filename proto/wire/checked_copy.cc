// Validity is collected branch-free: an element is bad if a sign bit of some expression is set, signs are OR-ed.
#include "proto/wire/checked_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "proto/base/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "proto/wire/checked_copy.cc"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h re-includes this file once per target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace embps::wire {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
T Load(const char* source, size_t index) {
  T value;
  std::memcpy(&value, source + index * sizeof(T), sizeof(T));
  return value;
}

template <class D>
bool AnySign(D d, hn::Vec<D> v) {
  return !hn::AllFalse(d, hn::Lt(v, hn::Zero(d)));
}

// Unaligned vector from bytes.
template <class D>
hn::Vec<D> LoadBytes(D d, const char* source) {
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(source));
}

// id is in [begin, begin + count) <=> neither v = id - begin nor count - 1 - v has its sign bit set.
template <class Id, bool kStore>
bool CheckIds(const char* source, size_t count, int64_t row_begin, int64_t row_count, int64_t* out) {
  const hn::ScalableTag<int64_t> d64;
  const size_t lanes = hn::Lanes(d64);
  const auto begin = hn::Set(d64, row_begin), last = hn::Set(d64, row_count - 1);
  auto signs = hn::Zero(d64);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d64)> ids;
    if constexpr (sizeof(Id) == 8) {
      ids = LoadBytes(d64, source + i * 8);
    } else {
      ids = hn::PromoteTo(d64, LoadBytes(hn::Rebind<int32_t, decltype(d64)>(), source + i * 4));
    }
    const auto v = hn::Sub(ids, begin);
    signs = hn::Or(signs, hn::Or(v, hn::Sub(last, v)));
    if constexpr (kStore) hn::StoreU(ids, d64, out + i);
  }
  uint64_t tail_signs = 0;
  for (; i < count; ++i) {
    const int64_t id = Load<Id>(source, i);
    const uint64_t v = static_cast<uint64_t>(id) - static_cast<uint64_t>(row_begin);
    tail_signs |= v | (static_cast<uint64_t>(row_count) - 1 - v);
    if constexpr (kStore) out[i] = id;
  }
  return (tail_signs >> 63) == 0 && !AnySign(d64, signs);
}

bool CopyIds64T(const char* source, size_t count, int64_t row_begin, int64_t row_count, int64_t* out) {
  return CheckIds<int64_t, true>(source, count, row_begin, row_count, out);
}
bool CopyIds32T(const char* source, size_t count, int64_t row_begin, int64_t row_count, int64_t* out) {
  return CheckIds<int32_t, true>(source, count, row_begin, row_count, out);
}
bool CheckIds64T(const char* source, size_t count, int64_t row_count) {
  return CheckIds<int64_t, false>(source, count, 0, row_count, nullptr);
}
bool CheckIds32T(const char* source, size_t count, int64_t row_count) {
  return CheckIds<int32_t, false>(source, count, 0, row_count, nullptr);
}

bool CopyLengthsT(const char* source, size_t count, int64_t max_length, int64_t* out, int64_t* sum) {
  const hn::ScalableTag<int64_t> d64;
  const size_t lanes = hn::Lanes(d64);
  const auto limit = hn::Set(d64, max_length);
  auto signs = hn::Zero(d64), sums = hn::Zero(d64);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto length = LoadBytes(d64, source + i * 8);
    signs = hn::Or(signs, hn::Or(length, hn::Sub(limit, length)));
    sums = hn::Add(sums, length);
    hn::StoreU(length, d64, out + i);
  }
  HWY_ALIGN int64_t lane_sums[hn::MaxLanes(d64)];
  hn::Store(sums, d64, lane_sums);
  uint64_t total = 0, tail_signs = 0;  // unsigned: sums of bad lengths wrap
  for (size_t lane = 0; lane < lanes; ++lane) total += static_cast<uint64_t>(lane_sums[lane]);
  for (; i < count; ++i) {
    const auto length = Load<uint64_t>(source, i);
    tail_signs |= length | (static_cast<uint64_t>(max_length) - length);
    total += length;
    out[i] = static_cast<int64_t>(length);
  }
  *sum = static_cast<int64_t>(static_cast<uint64_t>(*sum) + total);
  return (tail_signs >> 63) == 0 && !AnySign(d64, signs);
}

// Sign bit set <=> not finite: an exponent of all ones plus one carries into the sign bit.
template <class V>
V Carry32(V bits) {
  const hn::DFromV<V> d;
  return hn::Add(hn::And(bits, hn::Set(d, 0x7fffffff)), hn::Set(d, 0x00800000));
}

// fp32 bits of 16-bit elements in the low half of each lane.
struct WidenFp32 {
  using Element = uint32_t;
  template <class D32>
  static hn::Vec<D32> Bits(D32 d32, const char* source) {
    return LoadBytes(d32, source);
  }
  static uint32_t BitsAt(const char* source, size_t i) { return Load<uint32_t>(source, i); }
};

struct WidenBf16 {
  using Element = uint16_t;
  template <class D32>
  static hn::Vec<D32> Bits(D32 d32, const char* source) {
    return hn::ShiftLeft<16>(hn::PromoteTo(d32, LoadBytes(hn::Rebind<uint16_t, D32>(), source)));
  }
  static uint32_t BitsAt(const char* source, size_t i) { return uint32_t{Load<uint16_t>(source, i)} << 16; }
};

struct WidenFp16 {
  using Element = uint16_t;
  // Integer arithmetic, so that Inf and NaN stay what they are on every target.
  template <class D32>
  static hn::Vec<D32> Bits(D32 d32, const char* source) {
    const hn::RebindToFloat<D32> df;
    const auto half = hn::PromoteTo(d32, LoadBytes(hn::Rebind<uint16_t, D32>(), source));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000)));
    const auto magnitude = hn::And(half, hn::Set(d32, 0x7fff));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(d32, 112 << 23));
    const auto special = hn::Or(shifted, hn::Set(d32, 0x7f800000));
    const auto tiny = hn::BitCast(d32, hn::Mul(hn::ConvertTo(df, magnitude), hn::Set(df, 0x1p-24f)));
    auto bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x7bff)), special, normal);
    bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 0x0400)), tiny, bits);
    return hn::Or(bits, sign);
  }
  static uint32_t BitsAt(const char* source, size_t i) {
    return std::bit_cast<uint32_t>(HalfToFloat(Load<uint16_t>(source, i)));
  }
};

enum class Store { kNone, kCached, kStreaming };

template <class Widen, Store kStore>
bool Finite(const char* source, size_t count, float* out) {
  const hn::ScalableTag<int32_t> d32;
  const size_t lanes = hn::Lanes(d32);
  uint32_t carries = 0;
  const auto one = [&](size_t i) {
    const uint32_t bits = Widen::BitsAt(source, i);
    carries |= (bits & 0x7fffffffu) + 0x00800000u;
    if constexpr (kStore != Store::kNone) std::memcpy(out + i, &bits, sizeof(bits));
  };
  size_t i = 0;
  if constexpr (kStore == Store::kStreaming) {
    for (; i < count && reinterpret_cast<uintptr_t>(out + i) % (lanes * sizeof(float)) != 0; ++i) one(i);
  }
  auto vector_carries = hn::Zero(d32);
  for (; i + lanes <= count; i += lanes) {
    const auto bits = Widen::Bits(d32, source + i * sizeof(typename Widen::Element));
    vector_carries = hn::Or(vector_carries, Carry32(bits));
    if constexpr (kStore == Store::kCached) hn::StoreU(bits, d32, reinterpret_cast<int32_t*>(out + i));
    if constexpr (kStore == Store::kStreaming) hn::Stream(bits, d32, reinterpret_cast<int32_t*>(out + i));
  }
  for (; i < count; ++i) one(i);
  return (carries >> 31) == 0 && !AnySign(d32, vector_carries);
}

template <Store kStore>
bool FiniteOf(const char* source, size_t count, v1::DataType type, float* out) {
  if (type == v1::DATA_TYPE_FP16) return Finite<WidenFp16, kStore>(source, count, out);
  if (type == v1::DATA_TYPE_BF16) return Finite<WidenBf16, kStore>(source, count, out);
  return Finite<WidenFp32, kStore>(source, count, out);
}

bool CopyFiniteT(const char* source, size_t count, v1::DataType type, bool streaming_stores, float* out) {
  return streaming_stores ? FiniteOf<Store::kStreaming>(source, count, type, out)
                          : FiniteOf<Store::kCached>(source, count, type, out);
}
bool AllFiniteT(const char* source, size_t count, v1::DataType type) {
  return FiniteOf<Store::kNone>(source, count, type, nullptr);
}

int64_t CountAtLeastT(const int64_t* ids, size_t count, int64_t bound) {
  const hn::ScalableTag<int64_t> d64;
  const size_t lanes = hn::Lanes(d64);
  const auto least = hn::Set(d64, bound);
  auto below = hn::Zero(d64);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    below = hn::Add(below, hn::VecFromMask(d64, hn::Lt(hn::LoadU(d64, ids + i), least)));  // -1 for each id below
  }
  int64_t at_least = static_cast<int64_t>(i) + hn::GetLane(hn::SumOfLanes(d64, below));
  for (; i < count; ++i) at_least += ids[i] >= bound ? 1 : 0;
  return at_least;
}

void CopyRowsStreamingT(const char* source, size_t rows, size_t row_bytes, size_t stride_bytes, char* out) {
  const hn::ScalableTag<uint8_t> d8;
  const size_t lanes = hn::Lanes(d8);
  for (size_t row = 0; row < rows; ++row, source += row_bytes, out += stride_bytes) {
    size_t at = std::min(row_bytes, (lanes - reinterpret_cast<uintptr_t>(out) % lanes) % lanes);
    if (at > 0) std::memcpy(out, source, at);
    for (; at + lanes <= row_bytes; at += lanes) {
      hn::Stream(LoadBytes(d8, source + at), d8, reinterpret_cast<uint8_t*>(out) + at);
    }
    if (at < row_bytes) std::memcpy(out + at, source + at, row_bytes - at);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace embps::wire
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embps::wire {

HWY_EXPORT(CopyIds64T);
HWY_EXPORT(CopyIds32T);
HWY_EXPORT(CheckIds64T);
HWY_EXPORT(CheckIds32T);
HWY_EXPORT(CopyLengthsT);
HWY_EXPORT(CopyFiniteT);
HWY_EXPORT(AllFiniteT);
HWY_EXPORT(CountAtLeastT);
HWY_EXPORT(CopyRowsStreamingT);

bool CopyIds64(const char* source, size_t count, int64_t row_begin, int64_t row_count, int64_t* out) {
  return HWY_DYNAMIC_DISPATCH(CopyIds64T)(source, count, row_begin, row_count, out);
}
bool CopyIds32(const char* source, size_t count, int64_t row_begin, int64_t row_count, int64_t* out) {
  return HWY_DYNAMIC_DISPATCH(CopyIds32T)(source, count, row_begin, row_count, out);
}
bool CopyLengths(const char* source, size_t count, int64_t max_length, int64_t* out, int64_t* sum) {
  return HWY_DYNAMIC_DISPATCH(CopyLengthsT)(source, count, max_length, out, sum);
}
bool CopyFinite(const char* source, size_t count, v1::DataType type, bool streaming_stores, float* out) {
  return HWY_DYNAMIC_DISPATCH(CopyFiniteT)(source, count, type, streaming_stores, out);
}
void FlushStores() { hwy::FlushStream(); }

bool AllIdsInRange(const char* source, size_t count, int id_bytes, int64_t row_count) {
  return id_bytes == 8 ? HWY_DYNAMIC_DISPATCH(CheckIds64T)(source, count, row_count)
                       : HWY_DYNAMIC_DISPATCH(CheckIds32T)(source, count, row_count);
}
bool AllFinite(const char* source, size_t count, v1::DataType type) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteT)(source, count, type);
}

int64_t CountAtLeast(const int64_t* ids, size_t count, int64_t bound) {
  return HWY_DYNAMIC_DISPATCH(CountAtLeastT)(ids, count, bound);
}

void CopyRows(const char* source, size_t rows, size_t row_bytes, size_t stride_bytes, bool streaming_stores,
              char* out) {
  if (streaming_stores) {
    HWY_DYNAMIC_DISPATCH(CopyRowsStreamingT)(source, rows, row_bytes, stride_bytes, out);
    return;
  }
  if (row_bytes == stride_bytes) {
    std::memcpy(out, source, rows * row_bytes);
    return;
  }
  for (size_t row = 0; row < rows; ++row) std::memcpy(out + row * stride_bytes, source + row * row_bytes, row_bytes);
}

}  // namespace embps::wire
#endif  // HWY_ONCE
