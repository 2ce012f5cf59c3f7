#include "proto/wire/jagged_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "proto/base/error.h"
#include "proto/base/float16.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Kjt {
  std::vector<absl::string_view> keys = {"user", "item"};
  std::vector<int64_t> bag_counts = {2, 3};
  std::vector<int64_t> lengths = {1, 0, 2, 0, 1};
  int64_t id_count = 4;
  bool weighted = true;
  std::vector<float> weights = {1, 2, 3, 4};

  absl::Status Validate(std::vector<int64_t>* begins = nullptr) const {
    return ValidateJagged({keys, bag_counts, lengths, id_count, weighted, weights}, begins);
  }
};

void ExpectLayoutError(const Kjt& kjt, const char* text) {
  const absl::Status status = kjt.Validate();
  EXPECT_EQ(ReasonOf(status), Reason::kBadJaggedLayout) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(ValidateJaggedTest, TellsWhereTheIdsOfEachFeatureBegin) {
  std::vector<int64_t> begins;
  ASSERT_TRUE(Kjt().Validate(&begins).ok());
  EXPECT_THAT(begins, ElementsAre(0, 1, 4));
  Kjt empty = {{}, {}, {}, 0, false, {}};
  ASSERT_TRUE(empty.Validate(&begins).ok());
  EXPECT_THAT(begins, ElementsAre(0));
}

TEST(ValidateJaggedTest, N18_F22_NamesFieldFeatureAndSizes) {
  Kjt kjt;
  kjt.lengths[2] = -4;
  ExpectLayoutError(kjt, "lengths: entry 2, bag 0 of feature 1 \"item\", is -4");
  kjt = {};
  kjt.lengths[0] = 8'400'000'000'000'000'000;
  ExpectLayoutError(kjt, "entry 0, bag 0 of feature 0 \"user\", is 8400000000000000000, but there are 4 ids");
  kjt = {};
  kjt.lengths[0] = 2;
  ExpectLayoutError(kjt, "lengths: they sum to 5, but there are 4 ids");
  kjt = {};
  kjt.lengths.push_back(0);
  ExpectLayoutError(kjt, "lengths: 6 entries given, 5 expected (sum of the batch sizes)");
  kjt = {};
  kjt.weights.pop_back();
  ExpectLayoutError(kjt, "weights: 3 entries given, 4 expected (one per id)");
  kjt = {};
  kjt.weights[3] = NAN;
  ExpectLayoutError(kjt, "weights: entry 3, of feature 1 \"item\", is nan");
  kjt = {};
  kjt.keys[1] = "user";
  ExpectLayoutError(kjt, "keys: \"user\" occurs twice");
  kjt = {};
  kjt.keys.pop_back();
  ExpectLayoutError(kjt, "keys: 1 keys given, 2 expected");
  kjt = {};
  kjt.bag_counts[0] = -1;
  ExpectLayoutError(kjt, "batch size of feature 0 \"user\": -1");
}

TEST(ValidateJaggedTest, HugeIdCountsCannotOverflowTheSum) {
  Kjt kjt;
  kjt.weighted = false;
  kjt.id_count = INT64_MAX;
  kjt.lengths = {INT64_MAX, 1, INT64_MAX, INT64_MAX, 5};
  ExpectLayoutError(kjt, "lengths: they sum to");
}

TEST(ValidateIdsTest, SaysWhatTheServersDecoderSays) {
  const std::vector<int64_t> ids = {3, 50, -1, 2};
  const absl::Status client = ValidateIds({0, "", "default/wide"}, {ids.data(), 4, 8}, 0, 50);
  const absl::Status server = DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(1, 1)}, {4}, {ids})).status();
  EXPECT_EQ(client, server);
  EXPECT_EQ(client.message(),
            "ids: id 50 at position 1, of feature 0 (table \"default/wide\"), is outside [0, 50); bad ids in all: 2");
}

TEST(ValidateIdsTest, S10_ExtremeIdsAreNamedExactly) {
  for (int64_t bad : {int64_t{-1}, int64_t{-2}, INT64_MIN, INT64_MAX}) {
    const std::vector<int64_t> ids = {0, 49, bad};
    const absl::Status status = ValidateIds({4, "user", "default/wide"}, {ids.data(), 3, 8}, 100, 50);
    EXPECT_EQ(MetadataValue(status, "first_bad_id"), std::to_string(bad));
    EXPECT_EQ(MetadataValue(status, "position"), "102");
    EXPECT_EQ(MetadataValue(status, "feature_name"), "user");
  }
  const std::vector<int64_t> good = {0, 49};
  EXPECT_TRUE(ValidateIds({0, "", ""}, {good.data(), 2, 8}, 0, 50).ok());
  const std::vector<int32_t> narrow = {0, -1};
  EXPECT_FALSE(ValidateIds({0, "", ""}, {narrow.data(), 2, 4}, 0, 50).ok());
}

TEST(DropTest, MarksAndRemovesIdsOutsideTheTable) {
  const std::vector<int32_t> ids = {1, 9, -1, 3, -7, 4};
  std::vector<int64_t> marked(6);
  const IdCounts counts = MarkOutOfRange({ids.data(), 6, 4}, 9, marked.data());
  EXPECT_EQ(counts.dropped, 2);
  EXPECT_EQ(counts.pruned, 1);
  EXPECT_THAT(marked, ElementsAre(1, -1, -1, 3, -1, 4));
  std::vector<int64_t> lengths = {2, 0, 1, 3};
  std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(RemoveMarked(absl::MakeSpan(lengths), marked.data(), weights.data()), 3);
  EXPECT_THAT(lengths, ElementsAre(1, 0, 0, 2));
  EXPECT_EQ(std::vector<int64_t>(marked.begin(), marked.begin() + 3), (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.begin() + 3), (std::vector<float>{1, 4, 6}));
}

TEST(ValidateGradientsTest, LooksOnlyAtTheRowsOfAStridedView) {
  std::vector<float> tensor(4 * 5, 1.0f);
  tensor[5 + 4] = NAN;  // outside the first 3 columns
  GradView view = {tensor.data(), v1::DATA_TYPE_FP32, 4, 3, 5};
  EXPECT_TRUE(ValidateGradients({0, "user", "default/t"}, view).ok());
  tensor[2 * 5 + 1] = HUGE_VALF;
  tensor[3 * 5] = NAN;
  const absl::Status status = ValidateGradients({1, "user", "default/t"}, view);
  EXPECT_EQ(ReasonOf(status), Reason::kNonfiniteGradient);
  EXPECT_EQ(status.message(),
            "grads: row 2 of feature 1 \"user\" (table \"default/t\") holds NaN or Inf; such rows in all: 2");
  const std::vector<uint16_t> half = {0x3c00, 0x7c00};
  EXPECT_FALSE(ValidateGradients({0, "", ""}, {half.data(), v1::DATA_TYPE_FP16, 2, 1, 1}).ok());
  EXPECT_TRUE(ValidateGradients({0, "", ""}, {half.data(), v1::DATA_TYPE_BF16, 2, 1, 1}).ok());
}

}  // namespace
}  // namespace embps::wire
