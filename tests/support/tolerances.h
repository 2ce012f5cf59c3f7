// The tolerance table of numerics.md section 7, in one place.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/api/types.h"

namespace embps::testing {

// Pooled outputs against the double oracle or another placement. `absolute_sum` = sum over j of |w_j * x_j|.
inline double PooledTolerance(kernels::ElementType out_type, double expected, double absolute_sum) {
  const double fp32 = 1e-6 + 16 * 0x1p-24 * absolute_sum;
  switch (out_type) {
    case kernels::ElementType::kFp32:
      return fp32;
    case kernels::ElementType::kFp16:
      return fp32 + 0x1p-10 * std::abs(expected);
    case kernels::ElementType::kBf16:
      return fp32 + 0x1p-7 * std::abs(expected);
  }
  return 0;
}

// Updated rows and state against the double oracle.
inline constexpr double kOptimizerRelative = 1e-5;
inline double OptimizerTolerance(double expected) { return kOptimizerRelative * std::max(std::abs(expected), 1e-3); }

}  // namespace embps::testing
