#include "proto/wire/batch_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/base/float16.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BatchDecoderTest, GroupsFeaturesByTableInOrderOfFirstAppearance) {
  const auto request =
      MakeRequest<v1::LookupRequest>({FeatureOf(2, 2), FeatureOf(1, 1), FeatureOf(2, 2, v1::POOLING_MEAN)},
                                     {2, 0, 1, 1, 3}, {{8, 0}, {49}, {1, 2, 3, 4}});
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const DecodedBatch& b = **batch;
  ASSERT_EQ(b.tables.size(), 2u);
  EXPECT_EQ(b.tables[0].table_uid, 2u);
  EXPECT_THAT(b.tables[0].features, ElementsAre(0, 2));
  EXPECT_THAT(ToVector(b.tables[0].offsets, 5), ElementsAre(0, 2, 2, 3, 6));
  EXPECT_THAT(ToVector(b.tables[0].ids, 6), ElementsAre(8, 0, 1, 2, 3, 4));
  EXPECT_THAT(ToVector(b.tables[0].divisors, 4), ElementsAre(1, 1, 1, 3));
  EXPECT_EQ(b.tables[0].weights, nullptr);
  EXPECT_THAT(ToVector(b.tables[1].ids, 1), ElementsAre(49));
  EXPECT_EQ(b.tables[1].divisors, nullptr);
  EXPECT_EQ(b.features[2].slot_begin, 2);
  EXPECT_EQ(b.features[2].slot_count, 2);
  EXPECT_EQ(b.features[2].id_begin, 2);
  EXPECT_EQ(b.features[2].id_count, 4);
}

TEST(BatchDecoderTest, EachIdOfASequenceIsASlotWithAGradientRow) {
  auto request = MakeRequest<v1::PushGradRequest>({FeatureOf(2, 2, v1::POOLING_NONE), FeatureOf(2, 1)}, {1, 2, 2},
                                                  {{5, 6, 7}, {1, 1}});
  std::vector<float> grads;
  for (int i = 0; i < 4 * 3; ++i) grads.push_back(static_cast<float>(i));
  request.set_grads(BytesOf(grads));
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const TableSlice& table = (*batch)->tables[0];
  EXPECT_EQ(table.slot_count, 4);
  EXPECT_THAT(ToVector(table.offsets, 5), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_EQ(ToVector(table.grads, 12), grads);
}

TEST(BatchDecoderTest, HalfPrecisionGradientsBecomeFp32) {
  auto request = MakeRequest<v1::PushGradRequest>({FeatureOf(2, 1)}, {0}, {{}});
  request.mutable_header()->set_grad_dtype(v1::DATA_TYPE_FP16);
  request.set_grads(BytesOf(std::vector<uint16_t>{FloatToHalf(1.5f), FloatToHalf(-0x1p-24f), 0x8000}));
  auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(ToVector((*batch)->tables[0].grads, 3), ElementsAre(1.5f, -0x1p-24f, -0.0f));
  request.mutable_header()->set_grad_dtype(v1::DATA_TYPE_BF16);
  request.set_grads(BytesOf(std::vector<uint16_t>{FloatToBfloat(-3.0f), FloatToBfloat(0x1p-130f), 0}));
  batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(ToVector((*batch)->tables[0].grads, 3), ElementsAre(-3.0f, 0x1p-130f, 0.0f));
}

TEST(BatchDecoderTest, N4_N22_NoFeaturesNoBagsAndOnlyEmptyBagsAreValid) {
  auto batch = DecodeOnce(v1::LookupRequest());
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT((*batch)->tables, IsEmpty());
  batch = DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(1, 0), FeatureOf(2, 3)}, {0, 0, 0}, {{}, {}}));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(ToVector((*batch)->tables[0].offsets, 1), ElementsAre(0));
  EXPECT_THAT(ToVector((*batch)->tables[1].offsets, 4), ElementsAre(0, 0, 0, 0));
}

TEST(BatchDecoderTest, N13_Int32IdsAreSignExtendedBeforeTheyAreCompared) {
  auto request = MakeRequest<v1::LookupRequest>({FeatureOf(2, 1)}, {1}, {{-3}});
  request.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->dropped_ids, 1);
}

TEST(BatchDecoderTest, F23_DropTakesIdsOutOfBagsAndCountsPrunedOnesApart) {
  auto request = MakeRequest<v1::LookupRequest>({FeatureOf(2, 3)}, {3, 1, 2}, {{1, 9, 2, -1, -1, 8}});
  request.mutable_header()->set_weighted(true);
  request.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  request.set_weights(BytesOf(std::vector<float>{1, 2, 3, 4, 5, 6}));
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const TableSlice& table = (*batch)->tables[0];
  EXPECT_THAT(ToVector(table.offsets, 4), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(ToVector(table.ids, 3), ElementsAre(1, 2, 8));
  EXPECT_THAT(ToVector(table.weights, 3), ElementsAre(1, 3, 6));
  EXPECT_EQ((*batch)->dropped_ids, 1);
  EXPECT_EQ((*batch)->pruned_ids, 2);
  EXPECT_EQ((*batch)->marked_ids, 0);
}

TEST(BatchDecoderTest, DropKeepsThePlaceOfSequenceIdsAndEmptiesTheirSlotsInPushes) {
  auto lookup = MakeRequest<v1::LookupRequest>({FeatureOf(2, 1, v1::POOLING_NONE)}, {3}, {{4, 77, 5}});
  lookup.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  const auto looked_up = DecodeOnce(lookup);
  ASSERT_TRUE(looked_up.ok()) << looked_up.status();
  EXPECT_THAT(ToVector((*looked_up)->tables[0].ids, 3), ElementsAre(4, -1, 5));
  EXPECT_EQ((*looked_up)->marked_ids, 1);
  auto push = MakeRequest<v1::PushGradRequest>({FeatureOf(2, 1, v1::POOLING_NONE)}, {3}, {{4, 77, 5}});
  push.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  push.set_grads(BytesOf(std::vector<float>(9, 1.0f)));
  const auto pushed = DecodeOnce(push);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ((*pushed)->features[0].slot_count, 3);
  EXPECT_THAT(ToVector((*pushed)->tables[0].offsets, 4), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(ToVector((*pushed)->tables[0].ids, 2), ElementsAre(4, 5));
}

TEST(BatchDecoderTest, N1_MeanDividesByTheWholeBagAlsoWhenItIsSplitOrCleaned) {
  v1::Feature split = FeatureOf(2, 3, v1::POOLING_MEAN);
  split.set_split_bags(true);
  auto request = MakeRequest<v1::LookupRequest>({split, FeatureOf(2, 2, v1::POOLING_MEAN)}, {2, 0, 1, 2, 0},
                                                {{1, 99, 3}, {4, -1}});
  request.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  request.set_bag_sizes(BytesOf(std::vector<int64_t>{5, 7, 1}));
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(ToVector((*batch)->tables[0].divisors, 5), ElementsAre(4, 7, 1, 1, 0));
}

TEST(BatchDecoderTest, DropRowsLeavesOutSlotsWithNonfiniteGradients) {
  auto request = MakeRequest<v1::PushGradRequest>({FeatureOf(2, 3)}, {1, 2, 1}, {{1, 2, 3, 4}});
  request.mutable_header()->set_nonfinite_policy(v1::NONFINITE_POLICY_DROP_ROWS);
  request.set_grads(BytesOf(std::vector<float>{1, 1, 1, 2, NAN, 2, 3, 3, 3}));
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const TableSlice& table = (*batch)->tables[0];
  EXPECT_THAT(ToVector(table.offsets, 4), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(ToVector(table.ids, 2), ElementsAre(1, 4));
  EXPECT_THAT(ToVector(table.grads, 9), ElementsAre(1, 1, 1, 0, 0, 0, 3, 3, 3));
  EXPECT_EQ((*batch)->dropped_rows, 1);
}

TEST(BatchDecoderTest, ASharedTableOfSeveralFeaturesKeepsRequestOrder) {
  const auto request = MakeRequest<v1::LookupRequest>({FeatureOf(1, 1), FeatureOf(3, 1), FeatureOf(1, 1)}, {1, 1, 1},
                                                      {{10}, {40}, {11}});
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(ToVector((*batch)->tables[0].ids, 2), ElementsAre(10, 11));
  EXPECT_THAT(ToVector((*batch)->tables[1].ids, 1), ElementsAre(40));
}

template <class Request>
void ExpectEqualToReference(const Request& request, Random& random, int round) {
  const auto expected = ReferenceDecode(request, CaseTable, CaseLimits());
  ASSERT_TRUE(expected.ok());
  for (int frames : {1, 2, 7, 40}) {
    GuardedMemory memory;
    const auto batch = Decode(request, frames, random, &memory);
    ASSERT_TRUE(batch.ok()) << batch.status() << " round " << round;
    constexpr bool kPush = std::is_same_v<Request, v1::PushGradRequest>;
    EXPECT_EQ(Difference(**batch, *expected, kPush), "") << "round " << round << ", " << frames << " frames";
    EXPECT_TRUE(memory.intact());
  }
}

TEST(BatchDecoderTest, EqualsThePlainReferenceHoweverFramesAreCut) {
  Random random(5);
  for (int round = 0; round < 400; ++round) {
    const CaseOptions options = {.bad_ids = round % 3 == 0, .nonfinite = round % 4 == 0, .sequences = round % 5 != 0};
    ExpectEqualToReference(RandomLookup(random, options), random, round);
    ExpectEqualToReference(RandomPush(random, options), random, round);
  }
}

TEST(BatchDecoderTest, LargeGradientsTakeTheStreamingPathUnchanged) {
  const TableInfo table = {"default/large", 10, 64, v1::ID_TYPE_INT64, 1, 0, 10};
  v1::PushGradRequest request;
  v1::Feature* feature = request.mutable_header()->add_features();
  feature->set_table_uid(9);
  feature->set_placement_version(1);
  feature->set_batch_size(20'000);
  feature->set_pooling(v1::POOLING_SUM);
  feature->set_dim(64);
  request.set_lengths(std::string(20'000 * 8, '\0'));
  std::vector<float> grads(20'000 * 64);
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = static_cast<float>(i) - 1e6f;
  request.set_grads(BytesOf(grads));
  BatchDecoder decoder({.max_bags = 100'000});
  ASSERT_TRUE(decoder.Begin(request.header(), [&](uint64_t) { return &table; }).ok());
  GuardedMemory memory;
  ASSERT_TRUE(decoder.Allocate(memory.allocator()).ok());
  Random random(1);
  ASSERT_TRUE(AppendInFrames(&decoder, BulkOf(request), 9, random).ok());
  const auto batch = decoder.Finish();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(ToVector((*batch)->tables[0].grads, 20'000 * 64), grads);
  EXPECT_TRUE(memory.intact());
}

TEST(BatchDecoderTest, MemoryIsKnownFromTheHeaderAndExactWithoutSequences) {
  auto request = MakeRequest<v1::PushGradRequest>({FeatureOf(1, 100), FeatureOf(2, 50)}, {}, {{}, {}});
  request.mutable_header()->set_id_count(1000);
  BatchDecoder decoder(CaseLimits());
  ASSERT_TRUE(decoder.Begin(request.header(), CaseTable).ok());
  const int64_t exact = 150 * 8 + 152 * 8 + 1000 * 8 + (100 * 16 + 50 * 3) * 4;
  EXPECT_GE(decoder.memory_bytes(), exact);
  EXPECT_LE(decoder.memory_bytes(), exact + 64 * 10);
  EXPECT_EQ(decoder.output_elements(), 100 * 16 + 50 * 3);
}

TEST(BatchDecoderTest, ReportsLayoutBeforeAnyByteArrives) {
  const auto request = MakeRequest<v1::LookupRequest>({FeatureOf(1, 4), FeatureOf(2, 5)}, {}, {{}, {}});
  BatchDecoder decoder(CaseLimits());
  ASSERT_TRUE(decoder.Begin(request.header(), CaseTable).ok());
  EXPECT_EQ(decoder.layout().bag_count, 9);
  EXPECT_EQ(decoder.layout().features[1].bag_begin, 4);
  EXPECT_FALSE(decoder.complete());
}

}  // namespace
}  // namespace embps::wire
