#include "tests/contract/canonical_update.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "kernels/math/host_device.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/philox.h"
#include "kernels/math/rounding.h"
#include "tests/support/elements.h"

namespace embps::testing {
namespace {

using kernels::OptimizerScalars;
#include "kernels/math/optimizer_rules.inc"

struct ScalarMath {
  using V = float;
  static V Set(float x) { return x; }
  static V Add(V a, V b) { return a + b; }
  static V Sub(V a, V b) { return a - b; }
  static V Mul(V a, V b) { return a * b; }
  static V Div(V a, V b) { return a / b; }
  static V Sqrt(V a) { return std::sqrt(a); }
};

using Values = std::vector<float>;

// a[j] += a[j + P/2], then P/4, ... 1, over the terms zero-padded to a power of two P.
float HalvingSum(Values terms) {
  terms.resize(std::bit_ceil(terms.size()), 0.0f);
  for (size_t half = terms.size() / 2; half >= 1; half /= 2) {
    for (size_t j = 0; j < half; ++j) terms[j] += terms[j + half];
  }
  return terms[0];
}

float SumOfSquares(const Values& values) {
  Values squares;
  for (const float value : values) squares.push_back(value * value);
  return HalvingSum(squares);
}

bool AllFinite(const Values& values) {
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// One row in fp32, its per-element states and its scalar state.
struct Row {
  Values x, s0, s1;
  float scalar = 0;
};

template <class Rule>
bool ApplyRule(const OptimizerScalars& s, const Values& g, Row& row) {
  const size_t dim = g.size();
  row.s0.resize(dim, 0.0f);
  row.s1.resize(dim, 0.0f);
  float sums[2] = {0, 0};
  if constexpr (Rule::kSums > 0) {
    Values terms(dim);
    for (size_t j = 0; j < dim; ++j) terms[j] = Rule::template Term<0>(s, g[j], row.x[j]);
    sums[0] = HalvingSum(terms);
  }
  if constexpr (Rule::kSums > 1) {
    Values terms(dim);
    for (size_t j = 0; j < dim; ++j) terms[j] = Rule::template Term<1>(s, g[j], row.x[j]);
    sums[1] = HalvingSum(terms);
  }
  const auto start = Rule::Start(s, sums, row.scalar);
  row.scalar = start.state;
  Values x(dim);
  for (size_t j = 0; j < dim; ++j) x[j] = Rule::Element(s, start, g[j], row.x[j], row.s0[j], row.s1[j]);
  bool finite = AllFinite({sums[0], sums[1], start.state}) && AllFinite(row.s0) && AllFinite(row.s1);
  if constexpr (Rule::kTrustRatio) {
    const float x_squares = SumOfSquares(row.x), q_squares = SumOfSquares(x);
    finite = finite && AllFinite({x_squares, q_squares});
    const float scale = Rule::Scale(s, x_squares, q_squares);
    for (size_t j = 0; j < dim; ++j) x[j] = row.x[j] - scale * x[j];
  }
  finite = finite && AllFinite(x);
  if (s.max_norm > 0) {
    const float squares = SumOfSquares(x), norm = std::sqrt(squares);
    finite = finite && std::isfinite(squares);
    if (norm > s.max_norm) {
      for (float& value : x) value *= s.max_norm / norm;
    }
  }
  row.x = x;
  return finite;
}

bool Apply(const kernels::Optimizer& optimizer, const Values& g, Row& row) {
  using A = ScalarMath;
  using kernels::OptimizerType;
  const OptimizerScalars s = kernels::MakeOptimizerScalars(optimizer, static_cast<int32_t>(g.size()));
  switch (optimizer.type) {
    case OptimizerType::kSgd:
      return ApplyRule<SgdRule<A>>(s, g, row);
    case OptimizerType::kAdagrad:
      return ApplyRule<AdagradRule<A>>(s, g, row);
    case OptimizerType::kRowwiseAdagrad:
      return optimizer.weight_decay_mode == kernels::WeightDecayMode::kL2
                 ? ApplyRule<RowwiseAdagradRule<A, true>>(s, g, row)
                 : ApplyRule<RowwiseAdagradRule<A, false>>(s, g, row);
    case OptimizerType::kAdam:
      return ApplyRule<AdamRule<A, ElementMoments>>(s, g, row);
    case OptimizerType::kPartialRowwiseAdam:
      return ApplyRule<AdamRule<A, RowMoment>>(s, g, row);
    case OptimizerType::kLamb:
      return ApplyRule<LambRule<A, ElementMoments>>(s, g, row);
    case OptimizerType::kPartialRowwiseLamb:
      return ApplyRule<LambRule<A, RowMoment>>(s, g, row);
    case OptimizerType::kLarsSgd:
      return ApplyRule<LarsSgdRule<A>>(s, g, row);
  }
  return false;
}

// Left fold from the first term inside chunks of 256, then left fold over the chunk sums.
Values SumOccurrences(const std::vector<Values>& terms) {
  constexpr size_t kChunk = 256;
  Values total;
  for (size_t begin = 0; begin < terms.size(); begin += kChunk) {
    Values chunk = terms[begin];
    for (size_t i = begin + 1; i < std::min(terms.size(), begin + kChunk); ++i) {
      for (size_t j = 0; j < chunk.size(); ++j) chunk[j] += terms[i][j];
    }
    if (begin == 0) {
      total = chunk;
    } else {
      for (size_t j = 0; j < chunk.size(); ++j) total[j] += chunk[j];
    }
  }
  return total;
}

// The gradient terms of each row in KJT order.
std::map<int64_t, std::vector<Values>> TermsByRow(const UpdateCase& update) {
  const int64_t dim = update.options.dim;
  std::map<int64_t, std::vector<Values>> terms;
  for (int64_t slot = 0; slot < update.bags.bag_count(); ++slot) {
    const float* g = update.task.grads + slot * update.task.grad_stride;
    for (int64_t i = update.bags.offsets[slot]; i < update.bags.offsets[slot + 1]; ++i) {
      Values term(g, g + dim);
      if (update.options.weighted) {
        for (float& value : term) value = update.bags.weights[i] * value;
      }
      terms[update.bags.ids[i]].push_back(term);
    }
  }
  return terms;
}

void StoreElement(const UpdateCase& update, int64_t row, int64_t column, float value, CanonicalResult& result) {
  const kernels::TableView& table = update.task.table;
  const kernels::Rounding& rounding = update.task.rounding;
  const int64_t index = row * table.dim + column;
  if (table.type == kernels::ElementType::kFp32) {
    std::memcpy(result.table.rows.data() + index * sizeof(float), &value, sizeof(float));
    return;
  }
  const auto global_column = static_cast<uint32_t>(table.column_base + column);
  const uint32_t random = kernels::RoundingBits(
      kernels::Philox4x32(kernels::PhiloxCounter(static_cast<uint64_t>(table.row_base + row), rounding.step,
                                                 global_column / kernels::kRoundingColumnsPerBlock),
                          rounding.key),
      global_column);
  const kernels::Rounded rounded = table.type == kernels::ElementType::kFp16
                                       ? kernels::RoundToHalf(value, rounding.stochastic, random)
                                       : kernels::RoundToBfloat(value, rounding.stochastic, random);
  std::memcpy(result.table.rows.data() + index * sizeof(uint16_t), &rounded.bits, sizeof(uint16_t));
  result.counts.values_saturated += rounded.saturated;
}

}  // namespace

CanonicalResult CanonicalUpdate(const UpdateCase& update) {
  CanonicalResult result{update.Snapshot(), {}};
  const kernels::TableView& table = update.task.table;
  const size_t dim = table.dim;
  const bool scalar_in_state0 =
      update.widths.state0 == 1 && update.options.optimizer.type == kernels::OptimizerType::kRowwiseAdagrad;
  const bool scalar_in_state1 = update.options.optimizer.type == kernels::OptimizerType::kPartialRowwiseAdam ||
                                update.options.optimizer.type == kernels::OptimizerType::kPartialRowwiseLamb;
  for (const auto& [id, terms] : TermsByRow(update)) {
    Row row;
    for (size_t j = 0; j < dim; ++j) row.x.push_back(GetElement(table.rows, table.type, id * dim + j));
    float* const s0 = result.table.state0.data() + id * update.widths.state0;
    float* const s1 = result.table.state1.data() + id * update.widths.state1;
    if (scalar_in_state0) row.scalar = *s0;
    if (scalar_in_state1) row.scalar = *s1;
    if (update.widths.state0 > 0 && !scalar_in_state0) row.s0.assign(s0, s0 + dim);
    if (update.widths.state1 > 0 && !scalar_in_state1) row.s1.assign(s1, s1 + dim);
    if (!Apply(update.task.optimizer, SumOccurrences(terms), row)) {
      ++result.counts.rows_overflowed;
      continue;
    }
    ++result.counts.rows_updated;
    if (scalar_in_state0) *s0 = row.scalar;
    if (scalar_in_state1) *s1 = row.scalar;
    if (update.widths.state0 > 0 && !scalar_in_state0) std::copy_n(row.s0.begin(), dim, s0);
    if (update.widths.state1 > 0 && !scalar_in_state1) std::copy_n(row.s1.begin(), dim, s1);
    for (size_t j = 0; j < dim; ++j) StoreElement(update, id, static_cast<int64_t>(j), row.x[j], result);
  }
  return result;
}

}  // namespace embps::testing
