// Initial values of rows. The value of (row, column) is a pure function of the 32 random bits that Philox draws for it
// (InitialBits of philox.h) and of the initializer's two numbers: the same on every backend, shard count and order.
//
//   UNIFORM   a + (b - a) * u,  u = (r >> 8) * 2^-24 in [0, 1)
//   NORMAL    a * z,  z standard normal: the top bit of r is its sign, the next 23 bits k give its tail probability
//             p = (2k + 1) * 2^-25 in (0, 1/2), and |z| = -Phi^-1(p), at most 5.42
//   CONSTANT  a
//
// fp32, every operation rounded in the order written; only + - * / and square root, which IEEE 754 defines to the bit.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/api/rows.h"
#include "kernels/math/host_device.h"

namespace embps::kernels {

// -ln(p) of a normal fp32 value in (0, 1), to 2e-7 relative. With p = m * 2^e and m in [sqrt(1/2), sqrt(2)):
// ln m = 2 * artanh(s), s = (m - 1) / (m + 1), by its Taylor series up to s^9.
EMBPS_HOST_DEVICE inline float MinusLog(float p) {
  const auto bits = std::bit_cast<uint32_t>(p);
  int exponent = static_cast<int>(bits >> 23) - 127;
  float m = std::bit_cast<float>((bits & 0x7fffffu) | 0x3f800000u);  // [1, 2)
  if (m > 1.41421354f) {
    m = m * 0.5f;
    exponent += 1;
  }
  const float s = (m - 1.0f) / (m + 1.0f);
  const float s2 = s * s;
  float series = 1.0f / 9.0f;
  series = series * s2 + 1.0f / 7.0f;
  series = series * s2 + 1.0f / 5.0f;
  series = series * s2 + 1.0f / 3.0f;
  series = series * s2 + 1.0f;
  const float log_m = 2.0f * s * series;
  return static_cast<float>(-exponent) * 0.693147182f - log_m;
}

// -Phi^-1(p) for p in [2^-25, 1/2), to 5e-6 absolute: a polynomial of degree 11 in t = sqrt(-ln p), interpolated at
// Chebyshev nodes of the interval of t (tests/unit/kernels/initializer_test.cc holds it against erfc).
EMBPS_HOST_DEVICE inline float NormalTail(float p) {
  constexpr float kCoefficients[] = {0x1.71d4dep+1f,  0x1.4f62d2p+1f,   -0x1.01efe6p-3f, 0x1.0787b0p-4f,
                                     -0x1.123458p-5f, 0x1.29c968p-6f,   -0x1.a8e4e8p-7f, 0x1.eed62ep-8f,
                                     0x1.2583a6p-10f, -0x1.c99cb8p-11f, -0x1.1c793ep-8f, 0x1.5f6cc2p-9f};
  const float t = std::sqrt(MinusLog(p));
  const float w = (t - 2.5f) * 0.6f;  // [-1, 1]
  float z = kCoefficients[11];
  for (int i = 10; i >= 0; --i) z = z * w + kCoefficients[i];
  return z;
}

EMBPS_HOST_DEVICE inline float InitialUniform(float a, float b, uint32_t random) {
  const float u = static_cast<float>(random >> 8) * 0x1p-24f;
  const float offset = (b - a) * u;
  return a + offset;
}

EMBPS_HOST_DEVICE inline float InitialNormal(float deviation, uint32_t random) {
  const uint32_t k = random >> 8 & 0x7fffffu;
  const float z = NormalTail(static_cast<float>(2 * k + 1) * 0x1p-25f);
  return deviation * (random >> 31 != 0 ? -z : z);
}

EMBPS_HOST_DEVICE inline float InitialValue(InitializerKind kind, float a, float b, uint32_t random) {
  switch (kind) {
    case InitializerKind::kUniform:
      return InitialUniform(a, b, random);
    case InitializerKind::kNormal:
      return InitialNormal(a, random);
    case InitializerKind::kConstant:
      return a;
  }
  return 0;
}

}  // namespace embps::kernels
