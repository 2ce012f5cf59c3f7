// Storage types of row elements, so that kernels can be templates over them.
#pragma once
#include <cstdint>

#include "kernels/api/types.h"
#include "proto/base/check.h"

namespace embps::kernels::cpu {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

// Calls f(T*) with a null pointer of the storage type: float, Half or Bfloat.
template <class F>
inline void WithElementType(ElementType type, F&& f) {
  switch (type) {
    case ElementType::kFp32:
      return f(static_cast<float*>(nullptr));
    case ElementType::kFp16:
      return f(static_cast<Half*>(nullptr));
    case ElementType::kBf16:
      return f(static_cast<Bfloat*>(nullptr));
  }
  EMBPS_CHECK(false);
}

}  // namespace embps::kernels::cpu
