// The oracle's random bits, written again from the paper and not from kernels/math.
#pragma once
#include <array>
#include <cstdint>

namespace embps::kernels::ref {

// Philox4x32-10 (Salmon et al. 2011).
inline std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> c, uint32_t k0, uint32_t k1) {
  for (int i = 0; i < 10; ++i) {
    const uint64_t a = c[0] * uint64_t{3528531795}, b = c[2] * uint64_t{3449720151};
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 2654435769u;
    k1 += 3144134277u;
  }
  return c;
}

}  // namespace embps::kernels::ref
