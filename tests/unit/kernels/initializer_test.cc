#include "kernels/math/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace embps::kernels {
namespace {

// The upper tail probability of a standard normal.
double Tail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

TEST(InitializerTest, MinusLogIsAccurate) {
  for (int i = 1; i < 200000; ++i) {
    const float p = std::ldexp(static_cast<float>(i * 83 % 16777216 + 1), -25);
    ASSERT_NEAR(MinusLog(p) / -std::log(static_cast<double>(p)), 1.0, 3e-7) << p;
  }
  EXPECT_NEAR(MinusLog(0x1p-25f), 25 * std::log(2.0), 1e-5);
}

TEST(InitializerTest, NormalTailInvertsErfc) {
  // Every octave of p, dense near 1/2 and at the far tail.
  for (int exponent = 2; exponent <= 25; ++exponent) {
    for (int i = 0; i < 2000; ++i) {
      const float p = std::ldexp(1.0f + static_cast<float>(i) / 2000.0f, -exponent);
      const double z = NormalTail(p);
      // The derivative of Tail is -density: an error of dz shows as density * dz.
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
      ASSERT_LT(std::abs(Tail(z) - p) / density, 5e-6) << "p " << p << " z " << z;
    }
  }
}

TEST(InitializerTest, NormalIsSymmetricAndBounded) {
  float largest = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const uint32_t random = i * 2654435761u & 0x7fffffffu;
    const float z = InitialNormal(1.0f, random);
    ASSERT_EQ(InitialNormal(1.0f, random | 0x80000000u), -z);
    ASSERT_EQ(InitialNormal(0.5f, random), 0.5f * z);
    largest = std::max(largest, std::abs(z));
  }
  EXPECT_GT(largest, 4.0f);
  EXPECT_NEAR(InitialNormal(1.0f, 0), 5.42, 1e-3);           // k = 0
  EXPECT_NEAR(InitialNormal(1.0f, 0x7fffffffu), 0.0, 1e-5);  // p just below 1/2
}

TEST(InitializerTest, UniformCoversItsRange) {
  EXPECT_EQ(InitialUniform(-0.5f, 0.5f, 0), -0.5f);
  EXPECT_EQ(InitialUniform(-0.5f, 0.5f, 0x80000000u), 0.0f);
  EXPECT_EQ(InitialUniform(-0.5f, 0.5f, 0x800000ffu), 0.0f) << "the low 8 bits are not used";
  EXPECT_LT(InitialUniform(-0.5f, 0.5f, 0xffffffffu), 0.5f);
  EXPECT_EQ(InitialUniform(2.0f, 2.0f, 12345u), 2.0f);
}

TEST(InitializerTest, ValueFollowsItsKind) {
  EXPECT_EQ(InitialValue(InitializerKind::kConstant, 0.25f, 9, 77), 0.25f);
  EXPECT_EQ(InitialValue(InitializerKind::kUniform, -1, 1, 77), InitialUniform(-1, 1, 77));
  EXPECT_EQ(InitialValue(InitializerKind::kNormal, 3, 1, 77), InitialNormal(3, 77));
}

// Pinned, so that a change of the formula is noticed: tables of older checkpoints' seeds must stay reproducible.
TEST(InitializerTest, ValuesAreTheOnesOfTheFirstVersion) {
  const uint32_t randoms[] = {0x00000000u, 0x12345678u, 0x7fffff00u, 0x9abcdef0u, 0xffffffffu};
  const uint32_t uniform[] = {0xbdcccccdu, 0xbdafac43u, 0xb2800000u, 0x3cab1f28u, 0x3dcccccbu};
  const uint32_t normal[] = {0x40ad7082u, 0x3fbbd93bu, 0x36000000u, 0xbfa0d926u, 0xb6000000u};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(InitialUniform(-0.1f, 0.1f, randoms[i])), uniform[i]);
    EXPECT_EQ(std::bit_cast<uint32_t>(InitialNormal(1.0f, randoms[i])), normal[i]);
  }
}

}  // namespace
}  // namespace embps::kernels
