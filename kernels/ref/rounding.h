// Rounding of updated rows to 16 bits, and its random bits, derived from numerics.md section 6 and not from
// kernels/math.
#pragma once
#include <cstdint>

#include "kernels/api/reduce_update.h"

namespace embps::kernels::ref {

struct RoundedElement {
  uint16_t bits = 0;
  bool saturated = false;
};

// `value` is finite. type: kFp16 or kBf16.
RoundedElement RoundElement(float value, ElementType type, const Rounding& rounding, int64_t global_row,
                            int64_t global_column);

}  // namespace embps::kernels::ref
