// Every instruction set that this CPU has gives the same bits.
#include "proto/wire/checked_copy.h"

#include <gtest/gtest.h>

#include <hwy/highway.h>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "proto/base/float16.h"

namespace embps::wire {
namespace {

class CheckedCopyTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) GTEST_SKIP() << "not on this CPU";
    hwy::SetSupportedTargetsForTest(static_cast<uint32_t>(GetParam()));
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

// Unaligned source and a guarded output.
template <class T, class Out>
struct Arrays {
  explicit Arrays(const std::vector<T>& values) : bytes(1 + values.size() * sizeof(T)), out(values.size() + 2) {
    if (!values.empty()) std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
    std::memset(out.data(), 0x5a, out.size() * sizeof(Out));
  }
  const char* source() const { return bytes.data() + 1; }
  Out* data() { return out.data() + 1; }
  bool intact() const {
    Out guard;
    std::memset(&guard, 0x5a, sizeof(guard));
    return std::memcmp(&out.front(), &guard, sizeof(Out)) == 0 && std::memcmp(&out.back(), &guard, sizeof(Out)) == 0;
  }
  std::vector<char> bytes;
  std::vector<Out> out;
};

constexpr int64_t kBadIds[] = {-1, -2, INT64_MIN, INT64_MAX, INT64_MIN + 5, 9, 10, 47, 100};

TEST_P(CheckedCopyTest, IdsAreComparedAsUnsigned64Bit) {
  for (size_t n = 0; n < 40; ++n) {
    std::vector<int64_t> ids(n);
    for (size_t i = 0; i < n; ++i) ids[i] = 10 + static_cast<int64_t>(i) % 37;
    Arrays<int64_t, int64_t> good(ids);
    EXPECT_TRUE(CopyIds64(good.source(), n, 10, 37, good.data()));
    EXPECT_EQ(std::vector<int64_t>(good.data(), good.data() + n), ids);
    EXPECT_TRUE(good.intact());
    for (size_t at = 0; at < n; ++at) {
      for (int64_t bad : kBadIds) {
        std::vector<int64_t> spoiled = ids;
        spoiled[at] = bad;
        Arrays<int64_t, int64_t> arrays(spoiled);
        const bool valid = bad >= 10 && bad < 47;
        EXPECT_EQ(CopyIds64(arrays.source(), n, 10, 37, arrays.data()), valid) << bad << " at " << at << " of " << n;
        EXPECT_EQ(arrays.data()[at], bad);
      }
    }
    EXPECT_EQ(CopyIds64(good.source(), n, 10, 0, good.data()), n == 0) << "no rows here";
  }
}

TEST_P(CheckedCopyTest, Int32IdsAreSignExtended) {
  for (size_t n = 1; n < 40; ++n) {
    std::vector<int32_t> ids(n, 7);
    Arrays<int32_t, int64_t> arrays(ids);
    EXPECT_TRUE(CopyIds32(arrays.source(), n, 0, 8, arrays.data()));
    EXPECT_TRUE(AllIdsInRange(arrays.source(), n, 4, 8));
    EXPECT_FALSE(CopyIds32(arrays.source(), n, 0, 7, arrays.data()));
    ids[n - 1] = -5;
    Arrays<int32_t, int64_t> negative(ids);
    EXPECT_FALSE(CopyIds32(negative.source(), n, 0, int64_t{1} << 47, negative.data()));
    EXPECT_FALSE(AllIdsInRange(negative.source(), n, 4, int64_t{1} << 47));
    EXPECT_EQ(negative.data()[n - 1], -5);
    EXPECT_TRUE(negative.intact());
  }
}

TEST_P(CheckedCopyTest, F22_LengthsAreBoundedSoThatSumsCannotOverflow) {
  for (size_t n = 1; n < 20; ++n) {
    std::vector<int64_t> lengths(n, 3);
    Arrays<int64_t, int64_t> arrays(lengths);
    int64_t sum = 100;
    EXPECT_TRUE(CopyLengths(arrays.source(), n, 3, arrays.data(), &sum));
    EXPECT_EQ(sum, 100 + 3 * static_cast<int64_t>(n));
    for (int64_t bad : {int64_t{4}, int64_t{-1}, int64_t{8'400'000'000'000'000'000}, INT64_MIN, INT64_MAX}) {
      lengths[n - 1] = bad;
      Arrays<int64_t, int64_t> spoiled(lengths);
      EXPECT_FALSE(CopyLengths(spoiled.source(), n, 3, spoiled.data(), &sum)) << bad;
    }
  }
}

TEST_P(CheckedCopyTest, EveryHalfPrecisionValueConvertsExactly) {
  for (auto type : {v1::DATA_TYPE_FP16, v1::DATA_TYPE_BF16}) {
    std::vector<uint16_t> halves(1 << 16);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
    Arrays<uint16_t, float> arrays(halves);
    EXPECT_FALSE(CopyFinite(arrays.source(), halves.size(), type, false, arrays.data()));
    for (size_t i = 0; i < halves.size(); ++i) {
      const float expected = type == v1::DATA_TYPE_FP16 ? HalfToFloat(halves[i]) : BfloatToFloat(halves[i]);
      EXPECT_EQ(std::isfinite(expected), std::isfinite(arrays.data()[i])) << i;
      if (std::isfinite(expected)) {
        EXPECT_EQ(std::memcmp(&expected, arrays.data() + i, 4), 0) << i;
      }
    }
    EXPECT_TRUE(arrays.intact());
  }
}

TEST_P(CheckedCopyTest, NonfiniteValuesAreSeenAtEveryPosition) {
  for (bool streaming : {false, true}) {
    for (size_t n = 1; n < 70; ++n) {
      std::vector<float> values(n, 3.4028235e38f);
      Arrays<float, float> good(values);
      EXPECT_TRUE(CopyFinite(good.source(), n, v1::DATA_TYPE_FP32, streaming, good.data()));
      FlushStores();
      EXPECT_EQ(std::vector<float>(good.data(), good.data() + n), values);
      EXPECT_TRUE(good.intact());
      EXPECT_TRUE(AllFinite(good.source(), n, v1::DATA_TYPE_FP32));
      for (float bad : {HUGE_VALF, -HUGE_VALF, NAN, -NAN}) {
        std::vector<float> spoiled = values;
        spoiled[n * 7 % n] = bad;
        spoiled[n - 1] = bad;
        Arrays<float, float> arrays(spoiled);
        EXPECT_FALSE(CopyFinite(arrays.source(), n, v1::DATA_TYPE_FP32, streaming, arrays.data()));
        EXPECT_FALSE(AllFinite(arrays.source(), n, v1::DATA_TYPE_FP32));
      }
    }
  }
}

TEST_P(CheckedCopyTest, RowsGoToTheirStride) {
  std::mt19937 random(1);
  for (size_t row_bytes : {1, 4, 31, 32, 64, 132, 256}) {
    for (size_t gap : {0, 4, 60}) {
      for (bool streaming : {false, true}) {
        const size_t rows = 5, stride = row_bytes + gap;
        std::string source(rows * row_bytes, ' ');
        for (char& c : source) c = static_cast<char>(random());
        std::string out(rows * stride + 3, 'g'), expected = out;
        for (size_t r = 0; r < rows; ++r)
          expected.replace(3 + r * stride, row_bytes, source.substr(r * row_bytes, row_bytes));
        CopyRows(source.data(), rows, row_bytes, stride, streaming, out.data() + 3);
        FlushStores();
        EXPECT_EQ(out, expected) << row_bytes << " " << gap;
      }
    }
  }
}

TEST_P(CheckedCopyTest, CountsIdsAtLeast) {
  std::vector<int64_t> ids = {-1, 0, 1, 5, INT64_MAX, INT64_MIN, 5, 4, 6};
  EXPECT_EQ(CountAtLeast(ids.data(), ids.size(), 5), 4);
  EXPECT_EQ(CountAtLeast(ids.data(), 3, 0), 2);
  EXPECT_EQ(CountAtLeast(ids.data(), 0, 0), 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, CheckedCopyTest, testing::Values(HWY_EMU128, HWY_SSSE3, HWY_SSE4, HWY_AVX2, HWY_AVX3),
                         [](const auto& info) { return hwy::TargetName(info.param); });

}  // namespace
}  // namespace embps::wire
