// Rows of any storage type for tests: typed access to raw memory, and its bits.
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/api/types.h"
#include "proto/base/float16.h"

namespace embps::testing {

inline constexpr kernels::ElementType kElementTypes[] = {kernels::ElementType::kFp32, kernels::ElementType::kFp16,
                                                         kernels::ElementType::kBf16};

inline const char* ElementTypeName(kernels::ElementType type) {
  switch (type) {
    case kernels::ElementType::kFp32:
      return "fp32";
    case kernels::ElementType::kFp16:
      return "fp16";
    case kernels::ElementType::kBf16:
      return "bf16";
  }
  return "?";
}

// Element `index` of rows of `type`.
inline float GetElement(const void* rows, kernels::ElementType type, int64_t index) {
  switch (type) {
    case kernels::ElementType::kFp32:
      return static_cast<const float*>(rows)[index];
    case kernels::ElementType::kFp16:
      return HalfToFloat(static_cast<const uint16_t*>(rows)[index]);
    case kernels::ElementType::kBf16:
      return BfloatToFloat(static_cast<const uint16_t*>(rows)[index]);
  }
  return 0;
}

// To nearest even; overflow becomes Inf.
inline void SetElement(void* rows, kernels::ElementType type, int64_t index, float value) {
  switch (type) {
    case kernels::ElementType::kFp32:
      static_cast<float*>(rows)[index] = value;
      break;
    case kernels::ElementType::kFp16:
      static_cast<uint16_t*>(rows)[index] = FloatToHalf(value);
      break;
    case kernels::ElementType::kBf16:
      static_cast<uint16_t*>(rows)[index] = FloatToBfloat(value);
      break;
  }
}

// The stored bits, for comparisons to the bit.
inline uint32_t ElementBits(const void* rows, kernels::ElementType type, int64_t index) {
  uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(rows) + index * kernels::ElementBytes(type), kernels::ElementBytes(type));
  return bits;
}

}  // namespace embps::testing
