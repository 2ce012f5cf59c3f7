// Rows between the three element types of the wire.
#pragma once
#include <cstdint>

#include "embps/table.h"

namespace embps::client {

int64_t ItemBytes(DataType type);

// to[0 .. count) = from[0 .. count). Equal types, or from fp32 to any (round to nearest even), or from any to fp32.
void CopyElements(const void* from, DataType from_type, void* to, DataType to_type, int64_t count);

// to[i] += from[i], fp32.
void AddElements(const float* from, float* to, int64_t count);
// The same with `from` of any type.
void AddElements(const void* from, DataType from_type, float* to, int64_t count);

// No NaN or Inf among them.
bool AllFinite(const void* values, DataType type, int64_t count);

}  // namespace embps::client
