#include "kernels/math/rounding.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/api/optimizer_step.h"
#include "proto/base/float16.h"

namespace embps::kernels {
namespace {

std::vector<float> InterestingValues() {
  std::vector<float> values = {0.0f,     -0.0f,    1.0f,       1.0f / 3,    0x1p-14f,  0x1p-15f,       0x1.ffcp-15f,
                               0x1p-24f, 0x1p-25f, 0x1.8p-24f, 0x1.2p-130f, 65504.0f,  65519.0f,       3.0e4f,
                               1.5f,     2.5f,     0x1.004p0f, 0x1.006p0f,  0x1.01p0f, 0x1.fffffep-1f, 1e-7f};
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i)
    values.push_back(std::ldexp(0.5f + random() * 0x1p-33f, static_cast<int>(random() % 40) - 26));
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

TEST(RoundingTest, NearestAgreesWithTheScalarConversions) {
  for (const float value : InterestingValues()) {
    EXPECT_EQ(RoundToBfloat(value, false, 0).bits, FloatToBfloat(value)) << value;
    if (std::abs(value) < 65520.0f) {
      EXPECT_EQ(RoundToHalf(value, false, 0).bits, FloatToHalf(value)) << value;
    }
  }
}

TEST(RoundingTest, ExactValuesNeverChange) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    for (const uint32_t random : {0u, 0x1fffu, 0xffffu}) ASSERT_EQ(RoundToHalf(value, true, random).bits, bits);
  }
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const float value = BfloatToFloat(static_cast<uint16_t>(bits));
    for (const uint32_t random : {0u, 0x1fffu, 0xffffu}) ASSERT_EQ(RoundToBfloat(value, true, random).bits, bits);
  }
}

// Over all 2^16 random numbers the mean is the value, and each result one of its two neighbours.
TEST(RoundingTest, StochasticRoundingIsUnbiasedAndSymmetric) {
  for (const float value : {1.0f / 3, 0.1f, 1e-3f, 0x1.8p-20f, 3.3e-6f, 1234.567f, 0x1.7p-25f}) {
    double half_sum = 0, bfloat_sum = 0;
    for (uint32_t random = 0; random < 0x10000; ++random) {
      const Rounded half = RoundToHalf(value, true, random);
      const Rounded bfloat = RoundToBfloat(value, true, random);
      half_sum += HalfToFloat(half.bits);
      bfloat_sum += BfloatToFloat(bfloat.bits);
      ASSERT_EQ(RoundToHalf(-value, true, random).bits, half.bits | 0x8000);
      ASSERT_EQ(RoundToBfloat(-value, true, random).bits, bfloat.bits | 0x8000);
    }
    const double half_spacing = std::max(0x1p-24, std::ldexp(1.0, std::ilogb(value) - 10));
    EXPECT_NEAR(half_sum / 65536, value, half_spacing * 0x1p-16) << value;
    EXPECT_NEAR(bfloat_sum / 65536, value, std::ldexp(1.0, std::ilogb(value) - 7) * 0x1p-16) << value;
  }
}

TEST(RoundingTest, WhatWouldBecomeInfiniteIsHeldAndTold) {
  for (const float sign : {1.0f, -1.0f}) {
    const uint16_t sign_bit = sign < 0 ? 0x8000 : 0;
    for (const bool stochastic : {false, true}) {
      EXPECT_EQ(RoundToHalf(sign * 1e30f, stochastic, 0).bits, sign_bit | kLargestHalf);
      EXPECT_TRUE(RoundToHalf(sign * 70000.0f, stochastic, 0).saturated);
      EXPECT_FALSE(RoundToHalf(sign * 65504.0f, stochastic, 0xffff).saturated);
    }
    EXPECT_TRUE(RoundToHalf(sign * 65519.0f, true, 0xffff).saturated);
    EXPECT_FALSE(RoundToHalf(sign * 65519.0f, true, 0).saturated);
    const float largest = std::numeric_limits<float>::max();
    EXPECT_EQ(RoundToBfloat(sign * largest, false, 0).bits, sign_bit | kLargestBfloat);
    EXPECT_TRUE(RoundToBfloat(sign * largest, false, 0).saturated);
    EXPECT_FALSE(RoundToBfloat(sign * largest, true, 0).saturated);
    EXPECT_TRUE(RoundToBfloat(sign * largest, true, 0xffff).saturated);
  }
}

TEST(OptimizerStepTest, HyperparametersMeanTheirDecimals) {
  EXPECT_EQ(DecimalOf(0.999f), 0.999);
  EXPECT_EQ(DecimalOf(0.9f), 0.9);
  EXPECT_EQ(DecimalOf(0.0f), 0.0);
  EXPECT_EQ(DecimalOf(1e-8f), 1e-8);
  Optimizer optimizer;
  SetBiasCorrections(1, optimizer);
  EXPECT_EQ(optimizer.bias_correction1, 0.1f);
  EXPECT_EQ(optimizer.bias_correction2, 0.001f);
  SetBiasCorrections(2, optimizer);
  EXPECT_EQ(optimizer.bias_correction1, 0.19f);
  EXPECT_EQ(optimizer.bias_correction2, 0.001999f);
  SetBiasCorrections(1000000, optimizer);
  EXPECT_EQ(optimizer.bias_correction1, 1.0f);
}

}  // namespace
}  // namespace embps::kernels
