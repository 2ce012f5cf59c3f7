#include "kernels/ref/elements.h"

#include <cmath>

#include "kernels/ref/rounding.h"
#include "proto/base/float16.h"

namespace embps::kernels::ref {

double ReadElement(const void* elements, ElementType type, int64_t index) {
  switch (type) {
    case ElementType::kFp32:
      return static_cast<const float*>(elements)[index];
    case ElementType::kFp16:
      return HalfToFloat(static_cast<const uint16_t*>(elements)[index]);
    case ElementType::kBf16:
      return BfloatToFloat(static_cast<const uint16_t*>(elements)[index]);
  }
  return 0;
}

void WriteElement(void* elements, ElementType type, int64_t index, double value, Overflow overflow) {
  const auto single = static_cast<float>(value);
  if (type == ElementType::kFp32) {
    static_cast<float*>(elements)[index] = single;
    return;
  }
  const uint16_t infinity = type == ElementType::kFp16 ? 0x7c00 : 0x7f80;
  const uint16_t sign = std::signbit(single) ? 0x8000 : 0;
  uint16_t& to = static_cast<uint16_t*>(elements)[index];
  if (std::isnan(single)) {
    to = sign | infinity | infinity >> 1;
  } else if (std::isinf(single)) {
    to = sign | (overflow == Overflow::kInfinity ? infinity : infinity - 1);
  } else {
    const RoundedElement rounded = RoundElement(single, type, Rounding{}, 0, 0);
    to = rounded.saturated && overflow == Overflow::kInfinity ? sign | infinity : rounded.bits;
  }
}

}  // namespace embps::kernels::ref
