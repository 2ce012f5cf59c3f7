// How an updated fp32 row element becomes a 16-bit one: stochastically or to nearest even, saturating.
//
// Both work on the magnitude, so that x and -x round alike with the same bits, and both are one addition in front of a
// truncation: `random16` (16 uniform bits, RoundingBits of philox.h) decides how much is added. A value that the type
// holds exactly never changes. With r uniform the expectation is the value itself, up to 2^-16 of the last place:
//   BF16                     (bits + r) >> 16
//   FP16, |x| >= 2^-14       (bits + low 13 bits of r) >> 13, exponent rebased
//   FP16, |x| <  2^-14       (floor(|x| * 2^40) + r) >> 16: units of 2^-24, the spacing of FP16 there
// What would become infinite is held at the largest finite value. Inputs are finite.
#pragma once
#include <bit>
#include <cstdint>

#include "kernels/math/host_device.h"

namespace embps::kernels {

inline constexpr uint32_t kLargestBfloat = 0x7f7f;
inline constexpr uint32_t kLargestHalf = 0x7bff;

struct Rounded {
  uint16_t bits = 0;
  bool saturated = false;
};

EMBPS_HOST_DEVICE constexpr Rounded RoundToBfloat(float value, bool stochastic, uint32_t random16) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t bias = stochastic ? random16 : 0x7fffu + (bits >> 16 & 1u);
  const uint32_t magnitude = ((bits & 0x7fffffffu) + bias) >> 16;
  const bool saturated = magnitude > kLargestBfloat;
  return {static_cast<uint16_t>((bits >> 16 & 0x8000u) | (saturated ? kLargestBfloat : magnitude)), saturated};
}

EMBPS_HOST_DEVICE constexpr Rounded RoundToHalf(float value, bool stochastic, uint32_t random16) {
  constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  constexpr uint32_t kRebase = 0x38000000u;          // 112 << 23: the difference of the exponent biases
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto absolute = std::bit_cast<float>(magnitude);
  if (magnitude < kSmallestNormal) {
    // To nearest: the sum with 0.5 is rounded to units of 2^-24, which then stand in the low bits.
    const uint32_t units = stochastic ? (static_cast<uint32_t>(absolute * 0x1p40f) + random16) >> 16
                                      : std::bit_cast<uint32_t>(absolute + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    return {static_cast<uint16_t>(sign | units), false};
  }
  const uint32_t bias = stochastic ? random16 & 0x1fffu : 0xfffu + (magnitude >> 13 & 1u);
  const uint32_t rounded = (magnitude + bias - kRebase) >> 13;
  const bool saturated = rounded > kLargestHalf;
  return {static_cast<uint16_t>(sign | (saturated ? kLargestHalf : rounded)), saturated};
}

}  // namespace embps::kernels
