#include "proto/base/float16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace embps {
namespace {

TEST(Float16Test, EveryHalfRoundTrips) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = HalfToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      ASSERT_EQ(FloatToHalf(value), half) << value;
    }
  }
}

TEST(Float16Test, EveryBfloatRoundTrips) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = BfloatToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BfloatToFloat(FloatToBfloat(value))));
    } else {
      ASSERT_EQ(FloatToBfloat(value), bits) << value;
    }
  }
}

TEST(Float16Test, MidpointsRoundToEven) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = HalfToFloat(half), high = HalfToFloat(half + 1);
    const float middle = low + (high - low) / 2;  // exact in fp32
    ASSERT_EQ(FloatToHalf(middle), half % 2 == 0 ? half : half + 1) << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, low)), half);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, high)), half + 1);
  }
}

TEST(Float16Test, OverflowBecomesInfinity) {
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(FloatToBfloat(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace embps
