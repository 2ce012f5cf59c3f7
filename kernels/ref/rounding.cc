#include "kernels/ref/rounding.h"

#include <cmath>

#include "kernels/ref/random.h"

namespace embps::kernels::ref {
namespace {

struct Format {
  int fraction_bits;
  int exponent_bits;
  int smallest_exponent;  // of normal values
  int random_bits;        // used where values are normal
};
constexpr Format kHalf = {10, 5, -14, 13};
constexpr Format kBfloat = {7, 8, -126, 16};

uint32_t RandomBits16(const Rounding& rounding, int64_t row, int64_t column) {
  const auto r = static_cast<uint64_t>(row);
  const uint64_t t = rounding.step;
  const std::array<uint32_t, 4> words =
      Philox({static_cast<uint32_t>(r % (1ull << 32)),
              static_cast<uint32_t>((r >> 32) % (1ull << 16) + ((t >> 32) % (1ull << 16) << 16)),
              static_cast<uint32_t>(t % (1ull << 32)), static_cast<uint32_t>(column / 8)},
             static_cast<uint32_t>(rounding.key % (1ull << 32)), static_cast<uint32_t>(rounding.key >> 32));
  const uint32_t word = words[column % 8 / 2];
  return column % 2 == 0 ? word % 65536 : word / 65536;
}

}  // namespace

RoundedElement RoundElement(float value, ElementType type, const Rounding& rounding, int64_t global_row,
                            int64_t global_column) {
  const Format format = type == ElementType::kFp16 ? kHalf : kBfloat;
  const double magnitude = std::abs(static_cast<double>(value));
  // Spacing of the format around the value, and the two neighbours in units of it.
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  const bool normal = magnitude > 0 && exponent - 1 >= format.smallest_exponent;
  const double spacing = std::ldexp(1.0, (normal ? exponent - 1 : format.smallest_exponent) - format.fraction_bits);
  double units = std::floor(magnitude / spacing);
  const double rest = magnitude / spacing - units;  // in [0, 1)
  if (rounding.stochastic) {
    const int bits = normal ? format.random_bits : 16;
    const double range = std::ldexp(1.0, bits);
    const double random = RandomBits16(rounding, global_row, global_column) % static_cast<uint32_t>(range);
    if (std::floor(rest * range) + random >= range) units += 1;
  } else if (rest > 0.5 || (rest == 0.5 && std::fmod(units, 2) == 1)) {
    units += 1;
  }
  const double largest = std::ldexp(2 - std::ldexp(1.0, -format.fraction_bits), (1 << (format.exponent_bits - 1)) - 1);
  double rounded = units * spacing;
  RoundedElement result;
  result.saturated = rounded > largest;
  if (result.saturated) rounded = largest;
  // Encode: an exact value of the format.
  uint32_t encoded = 0;
  std::frexp(rounded, &exponent);
  if (rounded != 0 && exponent - 1 >= format.smallest_exponent) {
    const auto fraction = static_cast<uint32_t>(std::ldexp(rounded, format.fraction_bits - (exponent - 1)));
    encoded = static_cast<uint32_t>(exponent - format.smallest_exponent) << format.fraction_bits;
    encoded += fraction - (1u << format.fraction_bits);
  } else {
    encoded = static_cast<uint32_t>(std::ldexp(rounded, format.fraction_bits - format.smallest_exponent));
  }
  result.bits = static_cast<uint16_t>(encoded | (std::signbit(value) ? 0x8000u : 0u));
  return result;
}

}  // namespace embps::kernels::ref
