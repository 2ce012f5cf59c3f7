#include "client/cpp/row_copy.h"

#include <cstring>

#include "proto/base/check.h"
#include "proto/base/float16.h"

namespace embps::client {
namespace {

float LoadElement(const void* from, DataType type, int64_t i) {
  switch (type) {
    case DataType::kFp32:
      return static_cast<const float*>(from)[i];
    case DataType::kFp16:
      return HalfToFloat(static_cast<const uint16_t*>(from)[i]);
    case DataType::kBf16:
      return BfloatToFloat(static_cast<const uint16_t*>(from)[i]);
  }
  return 0.0f;
}

// All-ones exponent of the type.
bool IsFinite(const void* from, DataType type, int64_t i) {
  if (type == DataType::kFp32) {
    uint32_t bits;
    std::memcpy(&bits, static_cast<const char*>(from) + i * 4, sizeof(bits));
    return (bits & 0x7f800000u) != 0x7f800000u;
  }
  const uint16_t bits = static_cast<const uint16_t*>(from)[i];
  const uint16_t exponent = type == DataType::kFp16 ? 0x7c00 : 0x7f80;
  return (bits & exponent) != exponent;
}

}  // namespace

int64_t ItemBytes(DataType type) { return type == DataType::kFp32 ? 4 : 2; }

void CopyElements(const void* from, DataType from_type, void* to, DataType to_type, int64_t count) {
  if (from_type == to_type) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count * ItemBytes(to_type)));
    return;
  }
  if (to_type == DataType::kFp32) {
    for (int64_t i = 0; i < count; ++i) static_cast<float*>(to)[i] = LoadElement(from, from_type, i);
    return;
  }
  EMBPS_CHECK(from_type == DataType::kFp32);
  const auto* in = static_cast<const float*>(from);
  auto* out = static_cast<uint16_t*>(to);
  if (to_type == DataType::kFp16) {
    for (int64_t i = 0; i < count; ++i) out[i] = FloatToHalf(in[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = FloatToBfloat(in[i]);
  }
}

void AddElements(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void AddElements(const void* from, DataType from_type, float* to, int64_t count) {
  if (from_type == DataType::kFp32) return AddElements(static_cast<const float*>(from), to, count);
  for (int64_t i = 0; i < count; ++i) to[i] += LoadElement(from, from_type, i);
}

bool AllFinite(const void* values, DataType type, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) finite &= IsFinite(values, type, i);
  return finite;
}

}  // namespace embps::client
