// Pushes that name a lookup_token: gradients alone arrive, ids are the kept lookup's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "proto/base/error.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::LookupRequest Lookup() {
  return MakeRequest<v1::LookupRequest>({FeatureOf(2, 2, v1::POOLING_MEAN), FeatureOf(2, 1, v1::POOLING_NONE)},
                                        {2, 1, 2}, {{1, 2, 3}, {4, 5}});
}

v1::PushGradRequest PushFor(const v1::LookupRequest& lookup) {
  v1::PushGradRequest push;
  *push.mutable_header()->mutable_features() = lookup.header().features();
  push.mutable_header()->set_id_count(lookup.header().id_count());
  push.mutable_header()->set_out_of_range_policy(lookup.header().out_of_range_policy());
  push.mutable_header()->set_lookup_token("0123456789abcdef");
  std::vector<float> grads;
  for (int i = 0; i < 4 * 3; ++i) grads.push_back(static_cast<float>(i));
  push.set_grads(BytesOf(grads));
  return push;
}

TEST(TokenPushTest, BorrowsTheKeptIdsAndDecodesGradients) {
  const auto kept = DecodeOnce(Lookup());
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto batch = DecodeOnce(PushFor(Lookup()), *kept);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->kept, *kept);
  EXPECT_EQ((*batch)->tables[0].ids, (*kept)->tables[0].ids);
  EXPECT_THAT(ToVector((*batch)->tables[0].divisors, 4), ElementsAre(2, 1, 1, 1));
  EXPECT_EQ((*batch)->tables[0].grads[11], 11.0f);
}

TEST(TokenPushTest, CopiesTheIdsWhenRowsAreLeftOut) {
  const auto kept = DecodeOnce(Lookup());
  ASSERT_TRUE(kept.ok()) << kept.status();
  v1::PushGradRequest push = PushFor(Lookup());
  push.mutable_header()->set_nonfinite_policy(v1::NONFINITE_POLICY_DROP_ROWS);
  const float nan = NAN;
  push.mutable_grads()->replace(2 * 3 * 4, 4, reinterpret_cast<const char*>(&nan), 4);
  const auto batch = DecodeOnce(push, *kept);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->kept, nullptr);
  EXPECT_EQ((*batch)->dropped_rows, 1);
  EXPECT_THAT(ToVector((*batch)->tables[0].offsets, 5), ElementsAre(0, 2, 3, 3, 4));
  EXPECT_THAT(ToVector((*batch)->tables[0].ids, 4), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(ToVector((*kept)->tables[0].ids, 5), ElementsAre(1, 2, 3, 4, 5)) << "the kept batch is untouched";
}

TEST(TokenPushTest, TakesMarkedSequenceIdsOut) {
  v1::LookupRequest lookup = MakeRequest<v1::LookupRequest>({FeatureOf(2, 1, v1::POOLING_NONE)}, {4}, {{1, -1, 50, 2}});
  lookup.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  const auto kept = DecodeOnce(lookup);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto batch = DecodeOnce(PushFor(lookup), *kept);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(ToVector((*batch)->tables[0].offsets, 5), ElementsAre(0, 1, 1, 1, 2));
  EXPECT_THAT(ToVector((*batch)->tables[0].ids, 2), ElementsAre(1, 2));
  EXPECT_EQ((*batch)->dropped_ids, 1);
  EXPECT_EQ((*batch)->pruned_ids, 1);
}

TEST(TokenPushTest, RefusesAnotherBatchThanTheLookups) {
  const auto kept = DecodeOnce(Lookup());
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto expect_refused = [&](const v1::PushGradRequest& push, const char* text) {
    const absl::Status status = DecodeOnce(push, *kept).status();
    EXPECT_EQ(ReasonOf(status), Reason::kBadJaggedLayout);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  v1::PushGradRequest push = PushFor(Lookup());
  push.mutable_header()->mutable_features(1)->set_batch_size(2);
  expect_refused(push, "header.features[1]: differs from the lookup");
  push = PushFor(Lookup());
  push.mutable_header()->set_id_count(4);
  expect_refused(push, "header.id_count");
  push = PushFor(Lookup());
  push.mutable_header()->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
  expect_refused(push, "header.out_of_range_policy");
  push = PushFor(Lookup());
  push.set_ids(Lookup().ids());
  expect_refused(push, "ids: 20 bytes given, 0 expected (lookup_token stands for all but grads)");
  push = PushFor(Lookup());
  push.mutable_grads()->resize(4);
  expect_refused(push, "grads: 4 bytes given, 48 expected");
}

TEST(TokenPushTest, ANonfiniteGradientIsRefused) {
  const auto kept = DecodeOnce(Lookup());
  ASSERT_TRUE(kept.ok()) << kept.status();
  v1::PushGradRequest push = PushFor(Lookup());
  const float inf = HUGE_VALF;
  push.mutable_grads()->replace(0, 4, reinterpret_cast<const char*>(&inf), 4);
  EXPECT_EQ(ReasonOf(DecodeOnce(push, *kept).status()), Reason::kNonfiniteGradient);
}

}  // namespace
}  // namespace embps::wire
