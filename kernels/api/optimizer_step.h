// What the caller of reduce_update computes on the host before a step of the Adam family.
#pragma once
#include <charconv>
#include <cmath>
#include <cstdint>

#include "kernels/api/reduce_update.h"

namespace embps::kernels {

// The shortest decimal that rounds to `value`, as a double: 0.999f means 0.999, and 1 - 0.999f alone is off by 1.3e-5.
inline double DecimalOf(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  double decimal = 0;
  std::from_chars(text, end.ptr, decimal);
  return decimal;
}

// Fills the bias corrections of step t >= 1 (the first applied push is step 1) from beta1 and beta2.
inline void SetBiasCorrections(int64_t t, Optimizer& optimizer) {
  const auto steps = static_cast<double>(t);
  optimizer.bias_correction1 = static_cast<float>(1.0 - std::pow(DecimalOf(optimizer.beta1), steps));
  optimizer.bias_correction2 = static_cast<float>(1.0 - std::pow(DecimalOf(optimizer.beta2), steps));
}

}  // namespace embps::kernels
