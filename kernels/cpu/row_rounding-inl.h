// 16-bit rows to fp32 and back, with the stochastic rounding of kernels/math/rounding.h. Compiled once per dispatch
// target.
#if defined(EMBPS_KERNELS_CPU_ROW_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBPS_KERNELS_CPU_ROW_ROUNDING_INL_H_
#undef EMBPS_KERNELS_CPU_ROW_ROUNDING_INL_H_
#else
#define EMBPS_KERNELS_CPU_ROW_ROUNDING_INL_H_
#endif

#include <bit>
#include <cstring>

#include "kernels/cpu/row_update.h"
#include "kernels/cpu/row_vectors-inl.h"
#include "kernels/math/philox.h"
#include "kernels/math/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

// The blocks first, first + 1, ... of a row's random bits, `count` rounded up to whole vectors of them.
HWY_INLINE void FillPhiloxBlocks(PhiloxBlock counter, uint64_t key, uint32_t first, uint32_t count, uint64_t* words) {
#if HWY_TARGET == HWY_SCALAR
  for (uint32_t block = 0; block < count; ++block) {
    counter.word[3] = first + block;
    const PhiloxBlock bits = Philox4x32(counter, key);
    std::memcpy(words + 2 * block, bits.word, sizeof(bits.word));
  }
#else
  // philox.h's rounds on 32-bit words in 64-bit lanes, one block per lane.
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto low_half = hn::Set(d, uint64_t{0xffffffffu});
  for (uint32_t block = 0; block < count; block += hn::Lanes(d)) {
    auto c0 = hn::Set(d, counter.word[0]), c1 = hn::Set(d, counter.word[1]), c2 = hn::Set(d, counter.word[2]);
    auto c3 = hn::Iota(d, first + block);
    auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto product0 = hn::MulEven(hn::BitCast(d32, c0), hn::Set(d32, kPhiloxMultiplier0));
      const auto product1 = hn::MulEven(hn::BitCast(d32, c2), hn::Set(d32, kPhiloxMultiplier1));
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d, key0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d, key1));
      c1 = hn::And(product1, low_half);
      c3 = hn::And(product0, low_half);
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    hn::StoreInterleaved2(hn::Or(c0, hn::ShiftLeft<32>(c1)), hn::Or(c2, hn::ShiftLeft<32>(c3)), d, words + 2 * block);
  }
#endif
}

// RoundingBits for each of the row's columns; points to the first column's.
inline HWY_NOINLINE const uint16_t* FillRandomBits(const UpdateContext& context, int64_t row) {
  static_assert(std::endian::native == std::endian::little);  // words in memory are columns in order
  const auto first_column = static_cast<uint32_t>(context.table.column_base);
  const uint32_t first_block = first_column / kRoundingColumnsPerBlock;
  const uint32_t end_block = (first_column + context.table.dim - 1) / kRoundingColumnsPerBlock + 1;
  const auto global_row = static_cast<uint64_t>(context.table.row_base + row);
  auto* const words = reinterpret_cast<uint64_t*>(context.scratch[UpdateScratch::kRandom]);
  FillPhiloxBlocks(PhiloxCounter(global_row, context.rounding.step, 0), context.rounding.key, first_block,
                   end_block - first_block, words);
  return reinterpret_cast<const uint16_t*>(words) + first_column % kRoundingColumnsPerBlock;
}

// rounding.h's RoundToBfloat and RoundToHalf on vectors: to the 16 bits in the low half of each lane. `random` holds
// r16 when stochastic.
using VU = hn::Vec<U32<FullTag>>;
HWY_INLINE VU RoundMagnitude(const Bfloat*, VU magnitude, bool stochastic, VU random) {
  const U32<FullTag> du;
  const VU odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(du, 1u));
  const VU bias = stochastic ? random : hn::Add(odd, hn::Set(du, 0x7fffu));
  return hn::ShiftRight<16>(hn::Add(magnitude, bias));
}

HWY_INLINE VU RoundMagnitude(const Half*, VU magnitude, bool stochastic, VU random) {
  const FullTag d;
  const U32<FullTag> du;
  const I32<FullTag> di;
  const VF absolute = hn::BitCast(d, magnitude);
  const VU odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  VU bias = hn::Add(odd, hn::Set(du, 0xfffu));
  VU units = hn::Sub(hn::BitCast(du, hn::Add(absolute, hn::Set(d, 0.5f))), hn::Set(du, 0x3f000000u));
  if (stochastic) {
    bias = hn::And(random, hn::Set(du, 0x1fffu));
    const VU scaled = hn::BitCast(du, hn::ConvertTo(di, hn::Mul(absolute, hn::Set(d, 0x1p40f))));
    units = hn::ShiftRight<16>(hn::Add(scaled, random));
  }
  const VU normal = hn::ShiftRight<13>(hn::Sub(hn::Add(magnitude, bias), hn::Set(du, 0x38000000u)));
  const auto small = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 0x38800000));
  return hn::IfThenElse(hn::RebindMask(du, small), units, normal);
}

HWY_INLINE uint32_t LargestBits(const Bfloat*) { return kLargestBfloat; }
HWY_INLINE uint32_t LargestBits(const Half*) { return kLargestHalf; }

// A 16-bit row as fp32, padded with zeros to whole vectors.
template <class T>
HWY_INLINE void DecodeRow(const T* from, int64_t dim, float* to) {
  for (int64_t j = 0; j < dim; j += kLanes) hn::Store(LoadSome(from + j, dim - j), FullTag(), to + j);
}

// Rounds a padded fp32 row to 16 bits; returns the number of saturated elements.
template <class T>
HWY_INLINE int64_t EncodeRow(const UpdateContext& context, int64_t row, const float* from, T* to) {
  const U32<FullTag> du;
  const I32<FullTag> di;
  const U16<FullTag> d16;
  const int64_t dim = context.table.dim;
  const bool stochastic = context.rounding.stochastic;
  const uint16_t* const random = stochastic ? FillRandomBits(context, row) : nullptr;
  const T* const type = nullptr;
  const VU largest = hn::Set(du, LargestBits(type));
  int64_t saturated = 0;
  for (int64_t j = 0; j < dim; j += kLanes) {
    const VU bits = hn::BitCast(du, hn::Load(FullTag(), from + j));
    const VU r = stochastic ? hn::PromoteTo(du, hn::LoadU(d16, random + j)) : hn::Zero(du);
    const VU rounded = RoundMagnitude(type, hn::And(bits, hn::Set(du, 0x7fffffffu)), stochastic, r);
    const auto over = hn::Gt(hn::BitCast(di, rounded), hn::BitCast(di, largest));
    const VU held = hn::IfThenElse(hn::RebindMask(du, over), largest, rounded);
    const VU result = hn::Or(hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u)), held);
    saturated += static_cast<int64_t>(hn::CountTrue(di, over));
    StoreSome(to + j, dim - j,
              [&](T* p) HWY_ATTR { hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, &p->bits); });
  }
  return saturated;
}

// Both for the context's type, once for all rules: rows of 16 bits pass through fp32 scratch.
inline HWY_NOINLINE void DecodeRow16(const UpdateContext& context, int64_t row, float* to) {
  const int64_t dim = context.table.dim;
  if (context.table.type == ElementType::kFp16) {
    DecodeRow(static_cast<const Half*>(context.table.rows) + row * dim, dim, to);
  } else {
    DecodeRow(static_cast<const Bfloat*>(context.table.rows) + row * dim, dim, to);
  }
}

inline HWY_NOINLINE int64_t EncodeRow16(const UpdateContext& context, int64_t row, const float* from) {
  const int64_t dim = context.table.dim;
  if (context.table.type == ElementType::kFp16) {
    return EncodeRow(context, row, from, static_cast<Half*>(context.table.rows) + row * dim);
  }
  return EncodeRow(context, row, from, static_cast<Bfloat*>(context.table.rows) + row * dim);
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
