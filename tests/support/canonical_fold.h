// The canonical order of numerics.md section 5, written out in plain fp32: what every backend must give to the bit.
#pragma once
#include <cstdint>

namespace embps::testing {

inline constexpr int64_t kFoldChunk = 256;

// Left fold from +0 inside chunks of 256 terms, then left fold over the chunk sums. term(i) is rounded to fp32.
template <class Term>
float CanonicalSum(int64_t count, Term term) {
  float total = 0.0f;
  for (int64_t begin = 0; begin < count; begin += kFoldChunk) {
    float chunk = 0.0f;
    for (int64_t i = begin; i < count && i < begin + kFoldChunk; ++i) chunk = chunk + term(i);
    total = begin == 0 ? chunk : total + chunk;
  }
  return total;
}

}  // namespace embps::testing
