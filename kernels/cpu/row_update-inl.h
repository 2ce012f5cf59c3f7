// The update of one row: optimizer, max_norm, rounding. Compiled once per dispatch target; the same bits on each,
// because every sum over D is the halving tree of numerics.md and everything else is element-wise.
#if defined(EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_
#undef EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_
#else
#define EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/row_update.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/math/host_device.h"
#include "kernels/math/philox.h"
#include "kernels/math/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {
#include "kernels/math/optimizer_rules.inc"

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

// Writes the new row; returns the number of saturated elements.
template <int kVectors>
HWY_INLINE int64_t StoreRow(const UpdateContext& context, const RowVectors<kVectors>& x, int64_t, int64_t count,
                            float* to) {
  const int64_t dim = kVectors > 0 ? kVectors * kLanes : context.table.dim;
  HWY_UNROLL(16)
  for (int64_t i = 0; i < count; ++i) {
    const VF v = x.Get(i);
    StoreSome(to + i * kLanes, dim - i * kLanes, [&](float* p) HWY_ATTR { hn::StoreU(v, FullTag(), p); });
  }
  return 0;
}

template <int kVectors, class T>
HWY_INLINE int64_t StoreRow(const UpdateContext& context, const RowVectors<kVectors>& x, int64_t row, int64_t count,
                            T* to) {
  const U32<FullTag> du;
  const I32<FullTag> di;
  const U16<FullTag> d16;
  const int64_t dim = context.table.dim;
  const bool stochastic = context.rounding.stochastic;
  const uint16_t* const random = stochastic ? FillRandomBits(context, row) : nullptr;
  int64_t saturated = 0;
  for (int64_t i = 0; i < count; ++i) {
    const VU bits = hn::BitCast(du, x.Get(i));
    const VU r = stochastic ? hn::PromoteTo(du, hn::LoadU(d16, random + i * kLanes)) : hn::Zero(du);
    const T* const type = nullptr;
    const VU rounded = RoundMagnitude(type, hn::And(bits, hn::Set(du, 0x7fffffffu)), stochastic, r);
    const VU largest = hn::Set(du, LargestBits(type));
    const auto over = hn::Gt(hn::BitCast(di, rounded), hn::BitCast(di, largest));
    const VU held = hn::IfThenElse(hn::RebindMask(du, over), largest, rounded);
    const VU result = hn::Or(hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u)), held);
    saturated += static_cast<int64_t>(hn::CountTrue(di, over));
    StoreSome(to + i * kLanes, dim - i * kLanes,
              [&](T* p) HWY_ATTR { hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, &p->bits); });
  }
  return saturated;
}

HWY_INLINE bool IsFinite(float x) { return std::abs(x) <= std::numeric_limits<float>::max(); }

// The memory of a row of the next batch. Its lines are requested between the vectors of the row being updated, because
// some CPUs drop prefetches that come in a burst.
template <class Rule, class T>
class RowAhead {
 public:
  HWY_INLINE RowAhead(const UpdateContext& context, int64_t row, int64_t dim)
      : row_(reinterpret_cast<const char*>(static_cast<const T*>(context.table.rows) + row * dim)),
        state0_(reinterpret_cast<const char*>(context.table.state0 + row * Width0(dim))),
        state1_(reinterpret_cast<const char*>(context.table.state1 + row * Width1(dim))),
        to_l2_(context.prefetch_to_l2) {
    if constexpr (Rule::kRowState) RequestLine(Rule::kElementStates == 0 ? state0_ : state1_, 0);
  }

  // Requests the lines that lie beside vector i of the row being updated.
  HWY_INLINE void Request(int64_t i) const {
    RequestLine(row_, i * kLanes * int64_t{sizeof(T)});
    if constexpr (Rule::kElementStates >= 1) RequestLine(state0_, i * kLanes * int64_t{sizeof(float)});
    if constexpr (Rule::kElementStates >= 2) RequestLine(state1_, i * kLanes * int64_t{sizeof(float)});
  }

 private:
  static HWY_INLINE int64_t Width0(int64_t dim) { return Rule::kElementStates >= 1 ? dim : Rule::kRowState ? 1 : 0; }
  static HWY_INLINE int64_t Width1(int64_t dim) {
    return Rule::kElementStates >= 2 ? dim : Rule::kElementStates == 1 && Rule::kRowState ? 1 : 0;
  }

  HWY_INLINE void RequestLine(const char* memory, int64_t byte) const {
    if (byte % 64 != 0) return;
    if (to_l2_) {
      __builtin_prefetch(memory + byte, 0, 2);
    } else if (byte % 128 == 0) {
      __builtin_prefetch(memory + byte, 0, 3);
    }
  }

  const char* row_;
  const char* state0_;
  const char* state1_;
  bool to_l2_;  // each line into L2; else every second one into L1, and the other of the pair comes along
};

constexpr int64_t kRowUntouched = -1;

// One row of one rule. kVectors: D in vectors, fixed at compile time, or 0 for any D.
template <class Rule, class T, int kVectors>
class RowUpdate {
 public:
  HWY_INLINE RowUpdate(const UpdateContext& context, const OptimizerScalars& scalars, const RowItem& item,
                       const RowAhead<Rule, T>& ahead)
      : context_(context),
        s_(scalars),
        g_(item.gradient),
        row_(item.row),
        dim_(kVectors > 0 ? kVectors * kLanes : context.table.dim),
        vectors_(kVectors > 0 ? kVectors : (dim_ + kLanes - 1) / kLanes),
        x_(static_cast<T*>(context.table.rows) + row_ * dim_),
        state0_(Rule::kElementStates >= 1 ? context.table.state0 + row_ * dim_ : nullptr),
        state1_(Rule::kElementStates >= 2 ? context.table.state1 + row_ * dim_ : nullptr),
        new_x_(context.scratch[UpdateScratch::kRow]),
        new_state0_(context.scratch[UpdateScratch::kState0]),
        new_state1_(context.scratch[UpdateScratch::kState1]),
        ahead_(ahead) {}

  // The number of saturated elements, or kRowUntouched.
  HWY_INLINE int64_t Run() {
    float* const row_state = !Rule::kRowState           ? nullptr
                             : Rule::kElementStates > 0 ? context_.table.state1 + row_
                                                        : context_.table.state0 + row_;
    float sums[2] = {0.0f, 0.0f};
    if constexpr (Rule::kSums > 0) Sums(sums);
    if (!IsFinite(sums[0]) || !IsFinite(sums[1])) return kRowUntouched;
    const typename Rule::Row start = Rule::Start(s_, sums, Rule::kRowState ? *row_state : 0.0f);
    if (!IsFinite(start.state)) return kRowUntouched;
    Elements(start);
    if constexpr (Rule::kTrustRatio) ApplyTrustRatio();
    if (s_.max_norm > 0) LimitNorm();
    if (!hn::AllTrue(FullTag(), hn::Eq(not_finite_, hn::Zero(FullTag())))) return kRowUntouched;
    if constexpr (Rule::kRowState) *row_state = start.state;
    if constexpr (Rule::kElementStates >= 1) StoreState(new_state0_, state0_);
    if constexpr (Rule::kElementStates >= 2) StoreState(new_state1_, state1_);
    return StoreRow<kVectors>(context_, new_x_, row_, vectors_, x_);
  }

 private:
  template <class E>
  HWY_INLINE VF Load(const E* from, int64_t i) const {
    return LoadSome(from + i * kLanes, kVectors > 0 ? kLanes : dim_ - i * kLanes);
  }

  // x - x is 0, or NaN where x is not finite, and a NaN stays.
  HWY_INLINE void Check(VF v) { not_finite_ = hn::Add(not_finite_, hn::Sub(v, v)); }

  HWY_INLINE void Sums(float* sums) {
    RowVectors<kVectors> terms0(context_.scratch[UpdateScratch::kTerms0]);
    RowVectors<kVectors> terms1(context_.scratch[UpdateScratch::kTerms1]);
    HWY_UNROLL(16)
    for (int64_t i = 0; i < vectors_; ++i) {
      ahead_.Request(i);
      const VF g = Load(g_, i), x = Load(x_, i);
      terms0.Set(i, Rule::template Term<0>(s_, g, x));
      if constexpr (Rule::kSums > 1) terms1.Set(i, Rule::template Term<1>(s_, g, x));
    }
    sums[0] = HalvingSum<kVectors>(terms0, vectors_);
    if constexpr (Rule::kSums > 1) sums[1] = HalvingSum<kVectors>(terms1, vectors_);
  }

  HWY_INLINE void Elements(const typename Rule::Row& start) {
    HWY_UNROLL(16)
    for (int64_t i = 0; i < vectors_; ++i) {
      if constexpr (Rule::kSums == 0) ahead_.Request(i);
      VF s0 = hn::Zero(FullTag()), s1 = s0;
      if constexpr (Rule::kElementStates >= 1) s0 = Load(state0_, i);
      if constexpr (Rule::kElementStates >= 2) s1 = Load(state1_, i);
      const VF x = Rule::Element(s_, start, Load(g_, i), Load(x_, i), s0, s1);
      new_x_.Set(i, x);
      Check(x);
      if constexpr (Rule::kElementStates >= 1) {
        new_state0_.Set(i, s0);
        Check(s0);
      }
      if constexpr (Rule::kElementStates >= 2) {
        new_state1_.Set(i, s1);
        Check(s1);
      }
    }
  }

  // new_x_ holds the direction q and becomes x - Scale*q.
  HWY_INLINE void ApplyTrustRatio() {
    const float x_squares = SumOfSquares([&](int64_t i) HWY_ATTR { return Load(x_, i); });
    const float q_squares = SumOfSquares([&](int64_t i) HWY_ATTR { return new_x_.Get(i); });
    const VF scale = hn::Set(FullTag(), Rule::Scale(s_, x_squares, q_squares));
    Check(hn::Set(FullTag(), x_squares));
    Check(hn::Set(FullTag(), q_squares));
    HWY_UNROLL(16)
    for (int64_t i = 0; i < vectors_; ++i) {
      const VF x = hn::Sub(Load(x_, i), hn::Mul(scale, new_x_.Get(i)));
      new_x_.Set(i, x);
      Check(x);
    }
  }

  HWY_INLINE void LimitNorm() {
    const float squares = SumOfSquares([&](int64_t i) HWY_ATTR { return new_x_.Get(i); });
    Check(hn::Set(FullTag(), squares));
    const float norm = std::sqrt(squares);
    if (!(norm > s_.max_norm)) return;
    const VF scale = hn::Set(FullTag(), s_.max_norm / norm);
    HWY_UNROLL(16)
    for (int64_t i = 0; i < vectors_; ++i) new_x_.Set(i, hn::Mul(new_x_.Get(i), scale));
  }

  template <class At>
  HWY_INLINE float SumOfSquares(At at) {
    RowVectors<kVectors> terms(context_.scratch[UpdateScratch::kTerms0]);
    HWY_UNROLL(16)
    for (int64_t i = 0; i < vectors_; ++i) {
      const VF v = at(i);
      terms.Set(i, hn::Mul(v, v));
    }
    return HalvingSum<kVectors>(terms, vectors_);
  }

  HWY_INLINE void StoreState(const RowVectors<kVectors>& from, float* to) {
    HWY_UNROLL(16)
    for (int64_t i = 0; i < vectors_; ++i) {
      const VF v = from.Get(i);
      StoreSome(to + i * kLanes, kVectors > 0 ? kLanes : dim_ - i * kLanes,
                [&](float* p) HWY_ATTR { hn::StoreU(v, FullTag(), p); });
    }
  }

  const UpdateContext& context_;
  const OptimizerScalars& s_;
  const float* const g_;  // [D]
  const int64_t row_;
  const int64_t dim_;
  const int64_t vectors_;
  T* const x_;
  float* const state0_;
  float* const state1_;
  RowVectors<kVectors> new_x_;
  RowVectors<kVectors> new_state0_;
  RowVectors<kVectors> new_state1_;
  const RowAhead<Rule, T>& ahead_;
  VF not_finite_ = hn::Zero(FullTag());
};

// Updates the rows of `batch` while those of `next` are requested.
using UpdateBatchFn = void (*)(const UpdateContext& context, const RowBatch& batch, const RowBatch& next,
                               UpdateCounts& counts);

template <class Rule, class T, int kVectors>
HWY_NOINLINE void UpdateBatch(const UpdateContext& context, const RowBatch& batch, const RowBatch& next,
                              UpdateCounts& counts) {
  const OptimizerScalars scalars = context.scalars;
  const int64_t dim = kVectors > 0 ? kVectors * kLanes : context.table.dim;
  int64_t untouched = 0, saturated_values = 0;
  for (int64_t i = 0; i < batch.count; ++i) {
    const RowAhead<Rule, T> ahead(context, next.items[std::min(i, std::max<int64_t>(next.count - 1, 0))].row, dim);
    const int64_t saturated = RowUpdate<Rule, T, kVectors>(context, scalars, batch.items[i], ahead).Run();
    untouched += saturated == kRowUntouched;
    saturated_values += std::max<int64_t>(saturated, 0);
  }
  counts.rows_updated += batch.count - untouched;
  counts.rows_overflowed += untouched;
  counts.values_saturated += saturated_values;
}

// Widths of 4, 8 and 16 vectors stay in registers where it pays: fp32 rows of the rules without element state.
template <class Rule, class T>
UpdateBatchFn PickWidth(int32_t dim) {
  if constexpr (std::is_same_v<T, float> && Rule::kElementStates <= 1 && !Rule::kTrustRatio) {
    switch (dim) {
      case 4 * kLanes:
        return &UpdateBatch<Rule, T, 4>;
      case 8 * kLanes:
        return &UpdateBatch<Rule, T, 8>;
      case 16 * kLanes:
        return &UpdateBatch<Rule, T, 16>;
    }
  }
  return &UpdateBatch<Rule, T, 0>;
}

template <class T>
UpdateBatchFn PickRule(const Optimizer& optimizer, int32_t dim) {
  using A = VectorMath;
  switch (optimizer.type) {
    case OptimizerType::kSgd:
      return PickWidth<SgdRule<A>, T>(dim);
    case OptimizerType::kAdagrad:
      return PickWidth<AdagradRule<A>, T>(dim);
    case OptimizerType::kRowwiseAdagrad:
      return optimizer.weight_decay_mode == WeightDecayMode::kL2 ? PickWidth<RowwiseAdagradRule<A, true>, T>(dim)
                                                                 : PickWidth<RowwiseAdagradRule<A, false>, T>(dim);
    case OptimizerType::kAdam:
      return PickWidth<AdamRule<A, ElementMoments>, T>(dim);
    case OptimizerType::kPartialRowwiseAdam:
      return PickWidth<AdamRule<A, RowMoment>, T>(dim);
    case OptimizerType::kLamb:
      return PickWidth<LambRule<A, ElementMoments>, T>(dim);
    case OptimizerType::kPartialRowwiseLamb:
      return PickWidth<LambRule<A, RowMoment>, T>(dim);
    case OptimizerType::kLarsSgd:
      return PickWidth<LarsSgdRule<A>, T>(dim);
  }
  EMBPS_CHECK(false);
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
