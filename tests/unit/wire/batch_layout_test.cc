#include "proto/wire/batch_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::ElementsAre;

TEST(HomePartSlotsTest, CutsSamplesEvenlyForPooledAndByLengthsForSequences) {
  const auto batch = DecodeOnce(MakeRequest<v1::LookupRequest>({FeatureOf(1, 5), FeatureOf(1, 5, v1::POOLING_NONE)},
                                                               {1, 0, 2, 0, 1, 3, 0, 1, 2, 1},
                                                               {{1, 2, 3, 4}, {5, 6, 7, 8, 9, 10, 11}}));
  ASSERT_TRUE(batch.ok()) << batch.status();
  const DecodedBatch& b = **batch;
  EXPECT_THAT(HomePartSlots(b, b.features[0], 1), ElementsAre(0, 5));
  EXPECT_THAT(HomePartSlots(b, b.features[0], 2), ElementsAre(0, 2, 5));
  EXPECT_THAT(HomePartSlots(b, b.features[0], 7), ElementsAre(0, 0, 1, 2, 2, 3, 4, 5));
  EXPECT_THAT(HomePartSlots(b, b.features[1], 2), ElementsAre(5, 8, 12));
  EXPECT_THAT(HomePartSlots(b, b.features[1], 5), ElementsAre(5, 8, 8, 9, 11, 12));
}

TEST(CountBucketsTest, CountsIdsOfEachHomePartAndBucket) {
  auto request =
      MakeRequest<v1::LookupRequest>({FeatureOf(2, 3, v1::POOLING_NONE)}, {3, 0, 4}, {{0, 2, 3, -1, 8, 5, 2}});
  request.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  const auto batch = DecodeOnce(request);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const DecodedBatch& b = **batch;
  std::vector<int64_t> counts(2 * 3, -7);
  CountBuckets(b.tables[0], HomePartSlots(b, b.features[0], 2), {0, 3, 3}, absl::MakeSpan(counts));
  EXPECT_THAT(counts, ElementsAre(2, 1, 0, 1, 1, 1));
}

TEST(CountBucketsTest, AgreesWithDivisionForManyBucketsAndRowBegin) {
  Random random(1);
  std::vector<int64_t> ids(5000), offsets = {0, 5000};
  for (int64_t& id : ids) id = 1000 + static_cast<int64_t>(random() % 900);
  ids[17] = -1;
  TableSlice table;
  table.ids = ids.data();
  table.offsets = offsets.data();
  for (int32_t buckets : {1, 2, 3, 7, 31, 32, 100}) {
    const int64_t block = (900 + buckets - 1) / buckets;
    std::vector<int64_t> expected(static_cast<size_t>(buckets)), counts(static_cast<size_t>(buckets), 5);
    for (int64_t id : ids) {
      if (id != -1) ++expected[static_cast<size_t>((id - 1000) / block)];
    }
    CountBuckets(table, {0, 1}, {1000, block, buckets}, absl::MakeSpan(counts));
    EXPECT_EQ(counts, expected) << buckets;
  }
}

}  // namespace
}  // namespace embps::wire
