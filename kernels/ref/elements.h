// Reading and writing single elements of any storage type, in double.
#pragma once
#include <cstdint>

#include "kernels/api/types.h"

namespace embps::kernels::ref {

enum class Overflow { kInfinity, kLargestFinite };

double ReadElement(const void* elements, ElementType type, int64_t index);

// Converts once, to nearest even. What is too large for a 16-bit type becomes infinite or its largest finite value.
void WriteElement(void* elements, ElementType type, int64_t index, double value, Overflow overflow);

}  // namespace embps::kernels::ref
