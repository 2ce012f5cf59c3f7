// A push by lookup_token is the push with its ids, to the bit; a token that is gone says so.
#include <gtest/gtest.h>

#include "proto/base/error.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

BatchInput TwoFeatures(const v1::Table& table) {
  BatchInput batch;
  batch.features = {Bags(table, {{1, 4, 1}, {}, {9}}), Bags(table, {{4}, {0, 9}}, v1::POOLING_NONE)};
  batch.want_token = true;
  return batch;
}

void AddGrads(BatchInput* batch) {
  float next = 0.37f;
  for (FeatureInput& feature : batch->features) {
    const size_t rows = feature.pooling == v1::POOLING_NONE ? feature.ids.size() : feature.lengths.size();
    feature.grads.clear();
    for (size_t i = 0; i < rows * 2; ++i) feature.grads.push_back(next = next * 1.7f - static_cast<float>(i % 3));
  }
}

class LookupToken : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  LookupToken() : with_(Options()), without_(Options()) {}
  static TestNodeOptions Options() {
    TestNodeOptions options;
    options.ranks_per_node = {std::get<0>(GetParam())};
    options.deferred = std::get<1>(GetParam());
    return options;
  }
  static v1::Table Create(TestNode& node) {
    v1::TableSpec spec = SmallSpec("t", 10, 2, 0.5f);
    spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ADAGRAD);
    return *node.CreateTable(spec, v1::SHARDING_TYPE_ROW_WISE);
  }
  // Pushes the batch by token on one node and with ids on the other, and compares.
  void PushBoth(BatchInput batch, v1::NonfinitePolicy policy = v1::NONFINITE_POLICY_REFUSE) {
    const v1::Table table = Create(with_), other = Create(without_);
    for (FeatureInput& feature : batch.features) feature.table = table;
    const auto looked_up = with_.Lookup(batch);
    ASSERT_TRUE(looked_up.ok()) << looked_up.status();
    ASSERT_EQ(looked_up->info.lookup_token.size(), 16u);
    EXPECT_GT(with_.core().tokens->bytes_kept(), 0);
    PushInput by_token;
    by_token.batch = batch;
    by_token.token = looked_up->info.lookup_token;
    by_token.nonfinite_policy = policy;
    PushInput by_ids = by_token;
    by_ids.token.clear();
    for (FeatureInput& feature : by_ids.batch.features) feature.table = other;
    const auto a = with_.Push(by_token), b = without_.Push(by_ids);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    EXPECT_EQ(a->rows_updated(), b->rows_updated());
    EXPECT_EQ(a->dropped_rows(), b->dropped_rows());
    EXPECT_EQ(a->dropped_ids(), b->dropped_ids());
    const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const auto rows = with_.ReadRows(table, all), expected = without_.ReadRows(other, all);
    EXPECT_EQ(rows->rows, expected->rows);
    EXPECT_EQ(rows->state0, expected->state0);
    EXPECT_EQ(with_.core().tokens->bytes_kept(), 0);
  }
  TestNode with_, without_;
};

TEST_P(LookupToken, SavesTheIds) {
  BatchInput batch = TwoFeatures({});
  AddGrads(&batch);
  PushBoth(batch);
}

TEST_P(LookupToken, KeepsWeights) {
  BatchInput batch = TwoFeatures({});
  batch.features.pop_back();
  batch.weighted = true;
  batch.features[0].weights = {0.5f, 2, -3, 0.25f};
  AddGrads(&batch);
  PushBoth(batch);
}

TEST_P(LookupToken, LeavesOutDroppedIdsAndRows) {
  BatchInput batch = TwoFeatures({});
  batch.policy = v1::OUT_OF_RANGE_POLICY_DROP;
  batch.features[0].ids[1] = 10;
  batch.features[1].ids[0] = -1;
  AddGrads(&batch);
  PushBoth(batch);
}

TEST_P(LookupToken, LeavesOutNonfiniteRows) {
  BatchInput batch = TwoFeatures({});
  AddGrads(&batch);
  batch.features[0].grads[1] = std::numeric_limits<float>::quiet_NaN();
  PushBoth(batch, v1::NONFINITE_POLICY_DROP_ROWS);
}

INSTANTIATE_TEST_SUITE_P(Nodes, LookupToken, ::testing::Combine(::testing::Values(1, 2), ::testing::Bool()));

class TokenFates : public ::testing::Test {
 protected:
  void SetUp() override {
    table_ = *node_.CreateTable(SmallSpec("t", 10, 2), v1::SHARDING_TYPE_TABLE_WISE);
    batch_ = TwoFeatures(table_);
    AddGrads(&batch_);
  }
  PushInput ByToken(const std::string& token) {
    PushInput push;
    push.batch = batch_;
    push.token = token;
    return push;
  }
  TestNode node_;
  v1::Table table_;
  BatchInput batch_;
};

TEST_F(TokenFates, AMissReleasesTheClaimSoThatTheIdsCanFollow) {
  PushInput push = ByToken(std::string(16, 'x'));
  push.sequence = 1;
  EXPECT_EQ(ReasonOf(node_.Push(push).status()), Reason::kLookupTokenExpired);
  push.token.clear();
  const auto pushed = node_.Push(push);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_FALSE(pushed->duplicate());
}

TEST_F(TokenFates, ATokenLivesForItsTimeAndForItsSession) {
  const std::string token = node_.Lookup(batch_)->info.lookup_token;
  EXPECT_EQ(node_.core().tokens->Find(token, node_.NewSession(), node_.clock().Now()), nullptr);
  EXPECT_NE(node_.core().tokens->Find(token, node_.session(), node_.clock().Now()), nullptr);
  node_.clock().Advance(std::chrono::milliseconds(60'000));
  EXPECT_EQ(ReasonOf(node_.Push(ByToken(token)).status()), Reason::kLookupTokenExpired);
  EXPECT_EQ(node_.core().tokens->bytes_kept(), 0);
}

TEST_F(TokenFates, DedupeComesBeforeTheToken) {
  PushInput push = ByToken(node_.Lookup(batch_)->info.lookup_token);
  push.sequence = 1;
  ASSERT_TRUE(node_.Push(push).ok());
  const auto again = node_.Push(push);  // the token is spent
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate());
}

TEST_F(TokenFates, OtherFeaturesThanTheLookupsAreRefused) {
  const std::string token = node_.Lookup(batch_)->info.lookup_token;
  batch_.features.pop_back();
  EXPECT_EQ(ReasonOf(node_.Push(ByToken(token)).status()), Reason::kBadJaggedLayout);
}

TEST(TokenBounds, TheOldestGoesWhenThereIsNoRoomAndALargeOneIsNotKept) {
  TestNodeOptions options;
  options.token_bytes = 4096;
  TestNode node(options);
  const v1::Table table = *node.CreateTable(SmallSpec("t", 10, 2), v1::SHARDING_TYPE_TABLE_WISE);
  std::vector<std::string> tokens;
  for (int i = 0; i < 20; ++i) tokens.push_back(node.Lookup(TwoFeatures(table))->info.lookup_token);
  EXPECT_LE(node.core().tokens->bytes_kept(), 4096);
  EXPECT_EQ(node.core().tokens->Find(tokens[0], node.session(), node.clock().Now()), nullptr);
  EXPECT_NE(node.core().tokens->Find(tokens[19], node.session(), node.clock().Now()), nullptr);
  BatchInput large;
  large.features = {Bags(table, std::vector<std::vector<int64_t>>(1000, {1}))};
  large.want_token = true;
  const auto out = node.Lookup(large);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->info.lookup_token, "");
}

}  // namespace
}  // namespace embps::testing
