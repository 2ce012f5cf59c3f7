// Every fault of a data call: the right code, reason, and a text that names the field, the feature, the table, the
// first bad position and both sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "proto/base/error.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::HasSubstr;

// Features: 0 wide (MEAN), 1 narrow (SUM), 2 narrow (NONE); 2 bags each.
v1::PushGradRequest GoodPush() {
  auto request = MakeRequest<v1::PushGradRequest>(
      {FeatureOf(1, 2, v1::POOLING_MEAN), FeatureOf(2, 2), FeatureOf(2, 2, v1::POOLING_NONE)}, {1, 2, 0, 1, 1, 1},
      {{1, 2, 3}, {4}, {5, 6}});
  request.set_grads(std::string((2 * 16 + 2 * 3 + 2 * 3) * 4, '\0'));
  return request;
}

struct ErrorCase {
  const char* name;
  std::function<void(v1::PushGradRequest*)> spoil;
  Reason reason;
  const char* text;  // part of the message
};

class BatchErrorTest : public testing::TestWithParam<ErrorCase> {};

TEST_P(BatchErrorTest, IsRefusedByName) {
  v1::PushGradRequest request = GoodPush();
  ASSERT_TRUE(DecodeOnce(request).ok());
  GetParam().spoil(&request);
  const auto batch = DecodeOnce(request);
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(ReasonOf(batch.status()), GetParam().reason) << batch.status();
  EXPECT_EQ(batch.status().code(), CodeOf(GetParam().reason));
  EXPECT_THAT(std::string(batch.status().message()), HasSubstr(GetParam().text));
}

template <class T>
void Put(std::string* bytes, size_t index, T value) {
  std::memcpy(bytes->data() + index * sizeof(T), &value, sizeof(T));
}
v1::Feature* FeatureAt(v1::PushGradRequest* request, int f) { return request->mutable_header()->mutable_features(f); }

using Push = v1::PushGradRequest;
constexpr auto kLayout = Reason::kBadJaggedLayout;

const ErrorCase kHeaderCases[] = {
    {"UnknownTable", [](Push* r) { FeatureAt(r, 1)->set_table_uid(77); }, Reason::kTableNotFound,
     "header.features[1].table_uid: no table 77"},
    {"StalePlacement", [](Push* r) { FeatureAt(r, 1)->set_placement_version(5); }, Reason::kPlanStale,
     "features[1].placement_version: 5, table \"default/narrow\" is at 1"},
    {"S25_WrongDim", [](Push* r) { FeatureAt(r, 0)->set_dim(8); }, Reason::kDimMismatch,
     "features[0].dim: 8, table \"default/wide\" has 16"},
    {"WrongIdType", [](Push* r) { FeatureAt(r, 1)->set_id_type(v1::ID_TYPE_INT64); }, Reason::kDtypeUnsupported,
     "table \"default/narrow\" has ID_TYPE_INT32"},
    {"UnspecifiedIdTypeIsInt64", [](Push* r) { FeatureAt(r, 1)->clear_id_type(); }, Reason::kDtypeUnsupported,
     "features[1].id_type"},
    {"UnknownIdType", [](Push* r) { FeatureAt(r, 0)->set_id_type(static_cast<v1::IdType>(9)); },
     Reason::kDtypeUnsupported, "features[0].id_type: 9"},
    {"PoolingUnspecified", [](Push* r) { FeatureAt(r, 0)->clear_pooling(); }, kLayout, "features[0].pooling: 0"},
    {"PoolingUnknown", [](Push* r) { FeatureAt(r, 0)->set_pooling(static_cast<v1::Pooling>(4)); }, kLayout,
     "features[0].pooling: 4"},
    {"WeightsWithMean", [](Push* r) { r->mutable_header()->set_weighted(true); }, kLayout,
     "POOLING_MEAN refuses weights"},
    {"SplitSequence", [](Push* r) { FeatureAt(r, 2)->set_split_bags(true); }, kLayout, "features[2].split_bags"},
    {"TooManyFeatures",
     [](Push* r) {
       while (r->header().features_size() <= 16) *r->mutable_header()->add_features() = FeatureOf(1, 0);
     },
     kLayout, "header.features: 17, the limit is 16"},
    {"TooManyBags", [](Push* r) { FeatureAt(r, 0)->set_batch_size(4'000'000'000); }, kLayout, "the limit is 1000"},
    {"TooManyIds", [](Push* r) { r->mutable_header()->set_id_count(UINT64_MAX); }, kLayout,
     "header.id_count: 18446744073709551615, the limit is 5000"},
    {"UnknownGradType", [](Push* r) { r->mutable_header()->set_grad_dtype(static_cast<v1::DataType>(8)); },
     Reason::kDtypeUnsupported, "header.grad_dtype: unknown value 8"},
    {"UnknownRangePolicy",
     [](Push* r) { r->mutable_header()->set_out_of_range_policy(static_cast<v1::OutOfRangePolicy>(3)); },
     Reason::kMalformed, "out_of_range_policy: unknown value 3"},
    {"UnknownNonfinitePolicy",
     [](Push* r) { r->mutable_header()->set_nonfinite_policy(static_cast<v1::NonfinitePolicy>(3)); },
     Reason::kMalformed, "nonfinite_policy: unknown value 3"},
    {"GradScaleNan", [](Push* r) { r->mutable_header()->set_grad_scale(NAN); }, Reason::kMalformed, "grad_scale: nan"},
    {"WeightGradients", [](Push* r) { r->mutable_header()->set_weight_gradients(true); }, Reason::kMalformed,
     "weight_gradients"},
    {"TotalBytesTooSmall", [](Push* r) { r->mutable_header()->set_total_bytes(100); }, kLayout,
     "header.total_bytes: 100 bytes given, 260 expected"},
    {"TotalBytesHuge", [](Push* r) { r->mutable_header()->set_total_bytes(UINT64_MAX); }, kLayout, "total_bytes"},
};

const ErrorCase kArrayCases[] = {
    {"NegativeLength", [](Push* r) { Put<int64_t>(r->mutable_lengths(), 3, -1); }, kLayout,
     "lengths: entry 3, bag 1 of feature 1 (table \"default/narrow\"), is -1"},
    {"F22_HugeLength", [](Push* r) { Put<int64_t>(r->mutable_lengths(), 0, 8'400'000'000'000'000'000); }, kLayout,
     "entry 0, bag 0 of feature 0 (table \"default/wide\"), is 8400000000000000000, but there are 6 ids"},
    {"F22_HugeNegativeLength", [](Push* r) { Put<int64_t>(r->mutable_lengths(), 5, -3'500'000'000'000'000'000); },
     kLayout, "entry 5, bag 1 of feature 2"},
    {"N18_LengthsDoNotSumToIds", [](Push* r) { Put<int64_t>(r->mutable_lengths(), 0, 3); }, kLayout,
     "lengths: they sum to 8, but there are 6 ids"},
    {"LengthsShort", [](Push* r) { r->mutable_lengths()->resize(40); }, kLayout,
     "ids: sent before the end of lengths, 40 of its 48 bytes arrived"},
    {"LengthsLong", [](Push* r) { r->mutable_lengths()->resize(56); }, kLayout, "lengths: 56 bytes given, 48 expected"},
    {"IdsShort", [](Push* r) { r->mutable_ids()->resize(35); }, kLayout,
     "grads: sent before the end of ids, 35 of its 36 bytes arrived"},
    {"IdsLong", [](Push* r) { r->mutable_ids()->resize(37); }, kLayout, "ids: 37 bytes given, 36 expected"},
    {"WeightsUnasked", [](Push* r) { r->set_weights("1234"); }, kLayout, "weights: 4 bytes given, 0 expected"},
    {"BagSizesUnasked", [](Push* r) { r->set_bag_sizes("12345678"); }, kLayout, "bag_sizes: 8 bytes given, 0 expected"},
    {"BagSizesMissing", [](Push* r) { FeatureAt(r, 0)->set_split_bags(true); }, kLayout,
     "grads: sent before the end of bag_sizes, 0 of its 16 bytes arrived"},
    {"BagSizeBelowLength",
     [](Push* r) {
       FeatureAt(r, 0)->set_split_bags(true);
       r->set_bag_sizes(BytesOf(std::vector<int64_t>{1, 1}));
     },
     kLayout, "bag_sizes: entry 1, bag 1 of feature 0 (table \"default/wide\"), is 1, less than the 2 ids"},
    {"GradsShort", [](Push* r) { r->mutable_grads()->resize(172); }, kLayout, "grads: 172 bytes given, 176 expected"},
    {"GradsLong", [](Push* r) { r->mutable_grads()->append("x"); }, kLayout, "grads: 177 bytes given, 176 expected"},
    {"GradsOfAnotherType", [](Push* r) { r->mutable_header()->set_grad_dtype(v1::DATA_TYPE_FP16); }, kLayout,
     "grads: 176 bytes given, 88 expected"},
    {"N9_IdEqualToRowsIsRefused", [](Push* r) { Put<int64_t>(r->mutable_ids(), 1, 50); }, Reason::kIdOutOfRange,
     "ids: id 50 at position 1, of feature 0 (table \"default/wide\"), is outside [0, 50); bad ids in all: 1"},
    {"N9_IdEqualToRowsOfTheLastTableIsRefused", [](Push* r) { Put<int32_t>(r->mutable_ids(), 8, 9); },
     Reason::kIdOutOfRange, "id 9 at position 5, of feature 2 (table \"default/narrow\"), is outside [0, 9)"},
    {"S10_Int64MinIsRefused", [](Push* r) { Put<int64_t>(r->mutable_ids(), 0, INT64_MIN); }, Reason::kIdOutOfRange,
     "id -9223372036854775808 at position 0"},
    {"S10_Int64MaxIsRefused", [](Push* r) { Put<int64_t>(r->mutable_ids(), 2, INT64_MAX); }, Reason::kIdOutOfRange,
     "id 9223372036854775807 at position 2"},
    {"S10_MinusOneIsRefused", [](Push* r) { Put<int64_t>(r->mutable_ids(), 2, -1); }, Reason::kIdOutOfRange,
     "id -1 at position 2"},
    {"NanGradient",
     [](Push* r) { Put<float>(r->mutable_grads(), 2 * 16 + 4, std::numeric_limits<float>::quiet_NaN()); },
     Reason::kNonfiniteGradient, "grads: row 1 of feature 1 (table \"default/narrow\") holds NaN or Inf"},
    {"InfGradient", [](Push* r) { Put<float>(r->mutable_grads(), 0, -HUGE_VALF); }, Reason::kNonfiniteGradient,
     "row 0 of feature 0"},
};

std::string CaseName(const testing::TestParamInfo<ErrorCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Header, BatchErrorTest, testing::ValuesIn(kHeaderCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Arrays, BatchErrorTest, testing::ValuesIn(kArrayCases), CaseName);

TEST(BatchErrorsTest, U9_N8_MetadataSaysTableIdPositionCountAndRows) {
  v1::PushGradRequest request = GoodPush();
  Put<int64_t>(request.mutable_ids(), 2, 60);
  Put<int32_t>(request.mutable_ids(), 7, 99);
  const absl::Status status = DecodeOnce(request).status();
  EXPECT_EQ(MetadataValue(status, "table"), "default/wide");
  EXPECT_EQ(MetadataValue(status, "feature"), "0");
  EXPECT_EQ(MetadataValue(status, "first_bad_id"), "60");
  EXPECT_EQ(MetadataValue(status, "position"), "2");
  EXPECT_EQ(MetadataValue(status, "count"), "2");
  EXPECT_EQ(MetadataValue(status, "rows"), "50");
}

TEST(BatchErrorsTest, N10_RangesComeFromTheTableWhateverTheOrderOfFeatures) {
  // The wide table after the narrow one: 49 is fine for it and would not be for the narrow one.
  EXPECT_TRUE(DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(2, 1), FeatureOf(1, 1)}, {1, 1}, {{8}, {49}})).ok());
  EXPECT_TRUE(DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(1, 1), FeatureOf(2, 1)}, {1, 1}, {{49}, {8}})).ok());
  const auto status =
      DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(1, 1), FeatureOf(2, 1)}, {1, 1}, {{8}, {9}})).status();
  EXPECT_EQ(MetadataValue(status, "table"), "default/narrow");
}

TEST(BatchErrorsTest, IdsOfAnotherNodesRowsAreRefusedAndNeverDropped) {
  for (auto policy : {v1::OUT_OF_RANGE_POLICY_ERROR, v1::OUT_OF_RANGE_POLICY_DROP}) {
    auto request = MakeRequest<v1::LookupRequest>({FeatureOf(3, 1)}, {3}, {{34, 66, 67}});
    request.mutable_header()->set_out_of_range_policy(policy);
    const absl::Status status = DecodeOnce(request).status();
    EXPECT_EQ(ReasonOf(status), Reason::kBadJaggedLayout);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("id 67 at position 2, of feature 0 (table \"default/split\"), lies on another node, this one "
                          "holds rows [34, 67)"));
  }
  // A node whose block is empty takes pushes that name the table, but no ids.
  EXPECT_TRUE(DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(5, 1)}, {0}, {{}})).ok());
  EXPECT_EQ(ReasonOf(DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(5, 1)}, {1}, {{0}})).status()),
            Reason::kBadJaggedLayout);
}

TEST(BatchErrorsTest, NonfiniteWeightsAreRefused) {
  auto request = MakeRequest<v1::LookupRequest>({FeatureOf(1, 1), FeatureOf(2, 1)}, {1, 2}, {{1}, {2, 3}});
  request.mutable_header()->set_weighted(true);
  request.set_weights(BytesOf(std::vector<float>{1, 2, HUGE_VALF}));
  const absl::Status status = DecodeOnce(request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kBadJaggedLayout);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("weights: entry 2, of feature 1 (table \"default/narrow\"), is inf"));
}

TEST(BatchErrorsTest, PartialSumsAreFp32Only) {
  v1::Feature split = FeatureOf(1, 1);
  split.set_split_bags(true);
  auto request = MakeRequest<v1::LookupRequest>({split}, {0}, {{}});
  request.set_bag_sizes(BytesOf(std::vector<int64_t>{3}));
  EXPECT_TRUE(DecodeOnce(request).ok());
  request.mutable_header()->set_output_dtype(v1::DATA_TYPE_BF16);
  EXPECT_EQ(ReasonOf(DecodeOnce(request).status()), Reason::kDtypeUnsupported);
}

TEST(BatchErrorsTest, AnUnfinishedRequestSaysWhatIsMissing) {
  auto request = MakeRequest<v1::LookupRequest>({FeatureOf(1, 2)}, {1, 1}, {{1, 2}});
  request.mutable_ids()->resize(9);
  EXPECT_THAT(std::string(DecodeOnce(request).status().message()), HasSubstr("ids: 9 bytes given, 16 expected"));
}

TEST(BatchErrorsTest, F22_NothingIsAllocatedBeyondWhatTheHeaderImplies) {
  auto request = MakeRequest<v1::LookupRequest>({FeatureOf(1, 2)}, {int64_t{1} << 62, int64_t{1} << 62}, {{}});
  GuardedMemory memory;
  Random random(1);
  EXPECT_FALSE(Decode(request, 1, random, &memory).ok());
  EXPECT_LE(memory.allocated_bytes(), 512);
}

TEST(BatchErrorsTest, AFailedAllocationIsPassedOn) {
  BatchDecoder decoder;
  ASSERT_TRUE(decoder.Begin(GoodPush().header(), CaseTable).ok());
  const absl::Status status = decoder.Allocate(
      [](int64_t) -> absl::StatusOr<std::shared_ptr<void>> { return MakeError(Reason::kMemoryFull, "no"); });
  EXPECT_EQ(ReasonOf(status), Reason::kMemoryFull);
}

}  // namespace
}  // namespace embps::wire
