#include "tests/e2e/plan_invariance_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/float16.h"
#include "tests/support/tolerances.h"

namespace embps::testing {
namespace {

constexpr int64_t kDropped = -1;

struct PlainBag {
  std::vector<int64_t> ids;  // kDropped in place of an id outside the table
  std::vector<float> weights;
  int64_t kept = 0;
};

// A batch as lists: for each key the slots with their raw ids.
class PlainBatch {
 public:
  explicit PlainBatch(const KeyedJaggedTensor& kjt) : kjt_(kjt), slots_(kjt.keys.size()) {
    size_t slot = 0, at = 0;
    for (size_t f = 0; f < kjt.keys.size(); ++f) {
      const size_t bags = kjt.stride_per_key.empty() ? kjt.lengths.size() / kjt.keys.size()
                                                     : static_cast<size_t>(kjt.stride_per_key[f]);
      for (size_t b = 0; b < bags; ++b, ++slot) {
        PlainBag& bag = slots_[f].emplace_back();
        for (int64_t i = 0; i < kjt.lengths[slot]; ++i, ++at) {
          bag.ids.push_back(kjt.values32.empty() ? kjt.values[at] : kjt.values32[at]);
          bag.weights.push_back(kjt.weighted ? kjt.weights[at] : 1.0f);
        }
      }
    }
  }

  int KeyOf(const std::string& name) const {
    const auto found = std::find(kjt_.keys.begin(), kjt_.keys.end(), name);
    return found == kjt_.keys.end() ? -1 : static_cast<int>(found - kjt_.keys.begin());
  }

  // As a table of `row_count` rows sees the slots of key `f`.
  std::vector<PlainBag> Slots(int f, int64_t row_count, ExpectedLookup* counts) const {
    std::vector<PlainBag> bags = slots_[static_cast<size_t>(f)];
    for (PlainBag& bag : bags) {
      for (int64_t& id : bag.ids) {
        if (id >= 0 && id < row_count) {
          ++bag.kept;
          continue;
        }
        ++(id == -1 ? counts->pruned_ids : counts->dropped_ids);
        id = kDropped;
      }
    }
    return bags;
  }

  // By sample: slots repeated as the inverse indices say.
  std::vector<PlainBag> Samples(int f, const std::vector<PlainBag>& slots) const {
    if (kjt_.inverse_indices.empty()) return slots;
    std::vector<PlainBag> samples;
    for (int64_t slot : kjt_.inverse_indices[static_cast<size_t>(f)]) {
      samples.push_back(slots[static_cast<size_t>(slot)]);
    }
    return samples;
  }

 private:
  const KeyedJaggedTensor& kjt_;
  std::vector<std::vector<PlainBag>> slots_;  // [F][B_f]
};

// (table, key) pairs whose feature feeds the table.
struct Output {
  size_t table = 0;
  int key = 0;
  std::string name;
};

std::vector<Output> ListOutputs(const std::vector<DrawnTable>& tables, const PlainBatch& batch) {
  std::vector<Output> outputs;
  for (size_t t = 0; t < tables.size(); ++t) {
    for (const std::string& feature : tables[t].config.features) {
      const int key = batch.KeyOf(feature);
      if (key < 0) continue;
      int fed = 0;
      for (const DrawnTable& table : tables) {
        fed += static_cast<int>(std::count(table.config.features.begin(), table.config.features.end(), feature));
      }
      outputs.push_back({t, key, fed > 1 ? absl::StrCat(feature, "@", tables[t].config.spec.name) : feature});
    }
  }
  return outputs;
}

// One bag of a pooled output: dim values and their absolute sums.
void PoolBag(const PlainBag& bag, const DrawnTable& table, const std::vector<float>& rows, double* value,
             double* absolute) {
  const int64_t dim = table.config.spec.dim;
  const double divisor =
      table.config.pooling == Pooling::kMean ? static_cast<double>(std::max<int64_t>(bag.kept, 1)) : 1;
  for (int64_t d = 0; d < dim; ++d) value[d] = absolute[d] = 0;
  for (size_t i = 0; i < bag.ids.size(); ++i) {
    if (bag.ids[i] == kDropped) continue;
    for (int64_t d = 0; d < dim; ++d) {
      const double term = double{bag.weights[i]} * rows[static_cast<size_t>(bag.ids[i] * dim + d)] / divisor;
      value[d] += term;
      absolute[d] += std::fabs(term);
    }
  }
}

ExpectedSequence SequenceOf(const Output& output, const std::vector<PlainBag>& samples, int64_t dim,
                            const std::vector<float>& rows, DataType dtype) {
  ExpectedSequence sequence;
  sequence.name = output.name;
  for (const PlainBag& bag : samples) {
    sequence.lengths.push_back(static_cast<int64_t>(bag.ids.size()));
    for (int64_t id : bag.ids) {
      for (int64_t d = 0; d < dim; ++d) {
        char stored[4];
        StoreElement(stored, dtype, 0, id == kDropped ? 0.0f : rows[static_cast<size_t>(id * dim + d)]);
        sequence.rows.push_back(ElementOf(stored, dtype, 0));
      }
    }
  }
  return sequence;
}

kernels::ElementType ElementTypeOf(DataType type) {
  if (type == DataType::kFp16) return kernels::ElementType::kFp16;
  return type == DataType::kBf16 ? kernels::ElementType::kBf16 : kernels::ElementType::kFp32;
}

}  // namespace

ExpectedLookup ExpectLookup(const std::vector<DrawnTable>& tables, const DrawnBatch& drawn,
                            const std::vector<std::vector<float>>& rows) {
  const PlainBatch batch(drawn.kjt);
  const bool by_key = !drawn.kjt.stride_per_key.empty() && drawn.kjt.inverse_indices.empty();
  ExpectedLookup expected;
  expected.dtype = drawn.lookup.output_dtype;
  expected.named.resize(tables.size());
  expected.touched.resize(tables.size());
  std::vector<std::pair<Output, std::vector<PlainBag>>> pooled;
  int64_t stride = 0, elements = 0;
  for (const Output& output : ListOutputs(tables, batch)) {
    const TableSpec& spec = tables[output.table].config.spec;
    const std::vector<PlainBag> slots = batch.Slots(output.key, spec.row_count, &expected);
    expected.named[output.table] = true;
    for (const PlainBag& bag : slots) expected.touched[output.table] = expected.touched[output.table] || bag.kept > 0;
    std::vector<PlainBag> samples = batch.Samples(output.key, slots);
    if (tables[output.table].config.pooling == Pooling::kNone) {
      expected.sequences.push_back(SequenceOf(output, samples, spec.dim, rows[output.table], expected.dtype));
      continue;
    }
    stride += spec.dim;
    elements += spec.dim * static_cast<int64_t>(samples.size());
    pooled.emplace_back(output, std::move(samples));
  }
  // A variable batch comes in the order of the keys, each block by itself.
  if (by_key) std::ranges::stable_sort(pooled, {}, [](const auto& entry) { return entry.first.key; });
  expected.pooled.resize(static_cast<size_t>(elements));
  expected.absolute.resize(static_cast<size_t>(elements));
  int64_t next = 0;
  for (const auto& [output, samples] : pooled) {
    const int64_t dim = tables[output.table].config.spec.dim;
    expected.names.push_back(output.name);
    for (size_t b = 0; b < samples.size(); ++b) {
      const auto at = static_cast<size_t>(next + static_cast<int64_t>(b) * (by_key ? dim : stride));
      PoolBag(samples[b], tables[output.table], rows[output.table], &expected.pooled[at], &expected.absolute[at]);
    }
    next += by_key ? dim * static_cast<int64_t>(samples.size()) : dim;
  }
  return expected;
}

std::string DifferenceTo(const ExpectedLookup& expected, const LookupResult& result) {
  if (result.pooled.names != expected.names) return "names of the pooled outputs";
  if (result.pooled.element_count != static_cast<int64_t>(expected.pooled.size())) {
    return absl::StrCat(result.pooled.element_count, " pooled elements, expected ", expected.pooled.size());
  }
  if (result.dropped_ids != expected.dropped_ids || result.pruned_ids != expected.pruned_ids) {
    return absl::StrCat("dropped ", result.dropped_ids, " and pruned ", result.pruned_ids, " ids, expected ",
                        expected.dropped_ids, " and ", expected.pruned_ids);
  }
  for (size_t i = 0; i < expected.pooled.size(); ++i) {
    const double value = ElementOf(result.pooled.data.get(), expected.dtype, static_cast<int64_t>(i));
    const double allowed = PooledTolerance(ElementTypeOf(expected.dtype), expected.pooled[i], expected.absolute[i]);
    if (!(std::fabs(value - expected.pooled[i]) <= allowed)) {
      return absl::StrCat("pooled element ", i, ": ", value, ", expected ", expected.pooled[i], " +- ", allowed);
    }
  }
  if (result.sequences.size() != expected.sequences.size()) return "number of sequences";
  for (size_t s = 0; s < expected.sequences.size(); ++s) {
    const ExpectedSequence& want = expected.sequences[s];
    const SequenceTensor& got = result.sequences[s];
    if (got.name != want.name || got.lengths != want.lengths) return absl::StrCat("shape of sequence ", want.name);
    for (size_t i = 0; i < want.rows.size(); ++i) {
      const float value = ElementOf(got.data.get(), expected.dtype, static_cast<int64_t>(i));
      if (value != want.rows[i]) {
        return absl::StrCat("sequence ", want.name, " element ", i, ": ", value, ", expected ", want.rows[i]);
      }
    }
  }
  return "";
}

std::string DifferenceBetween(const ExpectedLookup& expected, const LookupResult& a, const LookupResult& b,
                              bool exact) {
  const auto bytes = static_cast<size_t>(static_cast<int64_t>(expected.pooled.size()) * ElementSize(expected.dtype));
  if (bytes == 0 || std::memcmp(a.pooled.data.get(), b.pooled.data.get(), bytes) == 0) return "";
  for (size_t i = 0; i < expected.pooled.size(); ++i) {
    const double x = ElementOf(a.pooled.data.get(), expected.dtype, static_cast<int64_t>(i));
    const double y = ElementOf(b.pooled.data.get(), expected.dtype, static_cast<int64_t>(i));
    const double allowed = exact ? 0 : PooledTolerance(ElementTypeOf(expected.dtype), x, expected.absolute[i]);
    if (!(std::fabs(x - y) <= allowed)) return absl::StrCat("pooled element ", i, ": ", x, " and ", y);
  }
  return exact ? "the signs of zeros" : "";
}

float ElementOf(const char* data, DataType type, int64_t index) {
  if (type == DataType::kFp32) {
    float value;
    std::memcpy(&value, data + index * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data + index * 2, 2);
  return type == DataType::kFp16 ? HalfToFloat(bits) : BfloatToFloat(bits);
}

void StoreElement(char* data, DataType type, int64_t index, float value) {
  if (type == DataType::kFp32) {
    std::memcpy(data + index * 4, &value, 4);
    return;
  }
  const uint16_t bits = type == DataType::kFp16 ? FloatToHalf(value) : FloatToBfloat(value);
  std::memcpy(data + index * 2, &bits, 2);
}

int64_t ElementSize(DataType type) { return type == DataType::kFp32 ? 4 : 2; }

}  // namespace embps::testing
