// The update of one row: optimizer, max_norm, rounding. Compiled once per dispatch target; the same bits on each,
// because every sum over D is the halving tree of numerics.md and everything else is element-wise.
#if defined(EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_
#undef EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_
#else
#define EMBPS_KERNELS_CPU_ROW_UPDATE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/row_rounding-inl.h"
#include "kernels/cpu/row_update.h"
#include "kernels/cpu/row_vectors-inl.h"
#include "kernels/math/host_device.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {
#include "kernels/math/optimizer_rules.inc"

HWY_INLINE bool IsFinite(float x) { return std::abs(x) <= std::numeric_limits<float>::max(); }

// The memory of a row of the next batch. Its lines are requested between the vectors of the row being updated, because
// some CPUs drop prefetches that come in a burst.
template <class Rule, int kVectors>
class RowAhead {
 public:
  HWY_INLINE RowAhead(const UpdateContext& context, int64_t row, int64_t dim)
      : element_bytes_(kVectors > 0 ? int64_t{sizeof(float)} : ElementBytes(context.table.type)),
        row_(static_cast<const char*>(context.table.rows) + row * dim * element_bytes_),
        state0_(reinterpret_cast<const char*>(context.table.state0 + row * Width0(dim))),
        state1_(reinterpret_cast<const char*>(context.table.state1 + row * Width1(dim))),
        to_l2_(context.prefetch_to_l2) {
    if constexpr (Rule::kRowState) RequestLine(Rule::kElementStates == 0 ? state0_ : state1_, 0);
  }

  // Requests the lines that lie beside vector i of the row being updated.
  HWY_INLINE void Request(int64_t i) const {
    RequestLine(row_, i * kLanes * element_bytes_);
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

  int64_t element_bytes_;
  const char* row_;
  const char* state0_;
  const char* state1_;
  bool to_l2_;  // each line into L2; else every second one into L1, and the other of the pair comes along
};

constexpr int64_t kRowUntouched = -1;

// One row of one rule. kVectors: D in vectors, fixed at compile time, or 0 for any D.
template <class Rule, int kVectors>
class RowUpdate {
 public:
  HWY_INLINE RowUpdate(const UpdateContext& context, const OptimizerScalars& scalars, const RowItem& item,
                       const RowAhead<Rule, kVectors>& ahead)
      : context_(context),
        s_(scalars),
        g_(item.gradient),
        row_(item.row),
        dim_(kVectors > 0 ? kVectors * kLanes : context.table.dim),
        vectors_(kVectors > 0 ? kVectors : (dim_ + kLanes - 1) / kLanes),
        is_fp32_(kVectors > 0 || context.table.type == ElementType::kFp32),
        x_(is_fp32_ ? static_cast<float*>(context.table.rows) + row_ * dim_ : context.scratch[UpdateScratch::kDecoded]),
        state0_(Rule::kElementStates >= 1 ? context.table.state0 + row_ * dim_ : nullptr),
        state1_(Rule::kElementStates >= 2 ? context.table.state1 + row_ * dim_ : nullptr),
        new_x_(context.scratch[UpdateScratch::kRow]),
        new_state0_(context.scratch[UpdateScratch::kState0]),
        new_state1_(context.scratch[UpdateScratch::kState1]),
        ahead_(ahead) {}

  // The number of saturated elements, or kRowUntouched.
  HWY_INLINE int64_t Run() {
    if (!is_fp32_) DecodeRow16(context_, row_, x_);
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
    if constexpr (Rule::kElementStates >= 1) StoreVectors(new_state0_, state0_);
    if constexpr (Rule::kElementStates >= 2) StoreVectors(new_state1_, state1_);
    if (!is_fp32_) return EncodeRow16(context_, row_, context_.scratch[UpdateScratch::kRow]);
    StoreVectors(new_x_, x_);
    return 0;
  }

 private:
  HWY_INLINE VF Load(const float* from, int64_t i) const {
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

  HWY_INLINE void StoreVectors(const RowVectors<kVectors>& from, float* to) {
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
  const bool is_fp32_;
  float* const x_;  // the row, or its fp32 copy
  float* const state0_;
  float* const state1_;
  RowVectors<kVectors> new_x_;
  RowVectors<kVectors> new_state0_;
  RowVectors<kVectors> new_state1_;
  const RowAhead<Rule, kVectors>& ahead_;
  VF not_finite_ = hn::Zero(FullTag());
};

// Updates the rows of `batch` while those of `next` are requested.
using UpdateBatchFn = void (*)(const UpdateContext& context, const RowBatch& batch, const RowBatch& next,
                               UpdateCounts& counts);

template <class Rule, int kVectors>
HWY_NOINLINE void UpdateBatch(const UpdateContext& context, const RowBatch& batch, const RowBatch& next,
                              UpdateCounts& counts) {
  const OptimizerScalars scalars = context.scalars;
  const int64_t dim = kVectors > 0 ? kVectors * kLanes : context.table.dim;
  int64_t untouched = 0, saturated_values = 0;
  for (int64_t i = 0; i < batch.count; ++i) {
    const RowAhead<Rule, kVectors> ahead(context, next.items[std::min(i, std::max<int64_t>(next.count - 1, 0))].row,
                                         dim);
    const int64_t saturated = RowUpdate<Rule, kVectors>(context, scalars, batch.items[i], ahead).Run();
    untouched += saturated == kRowUntouched;
    saturated_values += std::max<int64_t>(saturated, 0);
  }
  counts.rows_updated += batch.count - untouched;
  counts.rows_overflowed += untouched;
  counts.values_saturated += saturated_values;
}

// Widths of 4, 8 and 16 vectors stay in registers.
template <class Rule>
UpdateBatchFn PickWidth(const TableView& table) {
  if (table.type == ElementType::kFp32) {
    switch (table.dim) {
      case 4 * kLanes:
        return &UpdateBatch<Rule, 4>;
      case 8 * kLanes:
        return &UpdateBatch<Rule, 8>;
      case 16 * kLanes:
        return &UpdateBatch<Rule, 16>;
    }
  }
  return &UpdateBatch<Rule, 0>;
}

// The rules that most tables use are also compiled for fixed widths; each width costs seconds of build time.
inline UpdateBatchFn PickRule(const Optimizer& optimizer, const TableView& table) {
  using A = VectorMath;
  switch (optimizer.type) {
    case OptimizerType::kSgd:
      return PickWidth<SgdRule<A>>(table);
    case OptimizerType::kAdagrad:
      return PickWidth<AdagradRule<A>>(table);
    case OptimizerType::kRowwiseAdagrad:
      return optimizer.weight_decay_mode == WeightDecayMode::kL2 ? &UpdateBatch<RowwiseAdagradRule<A, true>, 0>
                                                                 : PickWidth<RowwiseAdagradRule<A, false>>(table);
    case OptimizerType::kAdam:
      return PickWidth<AdamRule<A, ElementMoments>>(table);
    case OptimizerType::kPartialRowwiseAdam:
      return &UpdateBatch<AdamRule<A, RowMoment>, 0>;
    case OptimizerType::kLamb:
      return &UpdateBatch<LambRule<A, ElementMoments>, 0>;
    case OptimizerType::kPartialRowwiseLamb:
      return &UpdateBatch<LambRule<A, RowMoment>, 0>;
    case OptimizerType::kLarsSgd:
      return &UpdateBatch<LarsSgdRule<A>, 0>;
  }
  EMBPS_CHECK(false);
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
