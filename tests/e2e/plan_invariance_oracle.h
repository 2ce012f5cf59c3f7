// What a lookup must answer, by plain loops over rows in double, and how answers are compared (numerics.md section 7).
// Shares nothing with client, server or kernels.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "embps/client.h"
#include "tests/e2e/plan_invariance_case.h"

namespace embps::testing {

struct ExpectedSequence {
  std::string name;
  std::vector<int64_t> lengths;
  std::vector<float> rows;  // in the output type: equal to the bit
};

struct ExpectedLookup {
  DataType dtype = DataType::kFp32;
  std::vector<std::string> names;  // of the pooled outputs, in order
  std::vector<double> pooled;      // [element_count]
  std::vector<double> absolute;    // [element_count] sum of |w_j * x_j|, MEAN: of |x_j| / L
  std::vector<ExpectedSequence> sequences;
  uint64_t dropped_ids = 0, pruned_ids = 0;
  std::vector<bool> named;    // [tables] by a key of the batch
  std::vector<bool> touched;  // [tables] with an id that was not dropped
};

// `rows`: [tables][R, D].
ExpectedLookup ExpectLookup(const std::vector<DrawnTable>& tables, const DrawnBatch& batch,
                            const std::vector<std::vector<float>>& rows);

// "" when `result` is within the tolerance of `expected`, else the first difference.
std::string DifferenceTo(const ExpectedLookup& expected, const LookupResult& result);
// The same for two results; `exact`: to the bit.
std::string DifferenceBetween(const ExpectedLookup& expected, const LookupResult& a, const LookupResult& b, bool exact);

// Element `index` of a tensor of `type`, and a value as a tensor of `type` holds it.
float ElementOf(const char* data, DataType type, int64_t index);
void StoreElement(char* data, DataType type, int64_t index, float value);
int64_t ElementSize(DataType type);

}  // namespace embps::testing
