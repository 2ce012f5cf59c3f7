#include "embps/kjt.h"

#include <limits>

#include "embps/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embps {
namespace {

using ::testing::HasSubstr;

KeyedJaggedTensor Valid() { return {.keys = {"a", "b"}, .lengths = {1, 2, 0, 1}, .values = {5, 6, 7, 8}}; }

void ExpectBad(const KeyedJaggedTensor& kjt, const std::string& text) {
  const absl::Status status = kjt.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorReason(status), "BAD_JAGGED_LAYOUT");
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(KjtTest, ValidBatchesPass) {
  EXPECT_TRUE(Valid().Validate().ok());
  EXPECT_TRUE(KeyedJaggedTensor{}.Validate().ok());
  EXPECT_TRUE((KeyedJaggedTensor{.keys = {"a"}}).Validate().ok());
  KeyedJaggedTensor narrow = Valid();
  narrow.values32 = {5, 6, 7, 8};
  narrow.values.clear();
  EXPECT_TRUE(narrow.Validate().ok());
}

TEST(KjtTest, N18_LengthsThatAreNoMultipleOfTheKeysNameBothSizes) {
  KeyedJaggedTensor kjt = Valid();
  kjt.lengths = {1, 2, 1};
  ExpectBad(kjt, "lengths: 3 entries for 2 keys");
}

TEST(KjtTest, N18_StridesThatDoNotMatchTheLengthsAreRefused) {
  KeyedJaggedTensor kjt = Valid();
  kjt.stride_per_key = {1, 2};
  ExpectBad(kjt, "lengths");
  kjt.stride_per_key = {1, 2, 1};
  ExpectBad(kjt, "stride_per_key: 3 entries for 2 keys");
  kjt.stride_per_key = {5, -1};
  ExpectBad(kjt, "stride_per_key: feature 1 \"b\": -1");
}

TEST(KjtTest, SumOfLengthsMustBeTheNumberOfValues) {
  KeyedJaggedTensor kjt = Valid();
  kjt.values.push_back(1);
  ExpectBad(kjt, "5");
}

TEST(KjtTest, F22_HugeAndNegativeLengthsAreRefusedWithoutOverflow) {
  KeyedJaggedTensor kjt = Valid();
  kjt.lengths = {8'400'000'000'000'000'000, 8'400'000'000'000'000'000, 1'646'744'073'709'551'620, 0};
  ExpectBad(kjt, "lengths");
  kjt.lengths = {1, -3'500'000'000'000'000'000, 0, 1};
  ExpectBad(kjt, "lengths");
}

TEST(KjtTest, DuplicateKeysAreRefused) {
  KeyedJaggedTensor kjt = Valid();
  kjt.keys = {"a", "a"};
  ExpectBad(kjt, "a");
}

TEST(KjtTest, WeightsMustBeAsManyAsIdsAndFinite) {
  KeyedJaggedTensor kjt = Valid();
  kjt.weighted = true;
  kjt.weights = {1, 2, 3};
  ExpectBad(kjt, "weights");
  kjt.weights = {1, 2, std::numeric_limits<float>::quiet_NaN(), 3};
  ExpectBad(kjt, "weights");
}

TEST(KjtTest, InverseIndicesMustPointAtSlots) {
  KeyedJaggedTensor kjt = Valid();
  kjt.inverse_indices = {{0, 1, 1}, {0, 1, 0}};
  EXPECT_TRUE(kjt.Validate().ok());
  kjt.inverse_indices = {{0, 1, 1}, {0, 2, 0}};
  ExpectBad(kjt, "inverse_indices: feature 1 \"b\" position 1: 2, must be in [0, 2)");
  kjt.inverse_indices = {{0, 1, 1}, {0, 1}};
  ExpectBad(kjt, "inverse_indices: feature 1 \"b\" has 2 samples, feature 0 has 3");
  kjt.inverse_indices = {{0}};
  ExpectBad(kjt, "inverse_indices: 1 lists for 2 keys");
}

TEST(KjtTest, TwoIdWidthsAtOnceAreRefused) {
  KeyedJaggedTensor kjt = Valid();
  kjt.values32 = {1};
  ExpectBad(kjt, "only one may be filled");
}

}  // namespace
}  // namespace embps
