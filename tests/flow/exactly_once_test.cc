// A push counts once, however often and however it is sent.
#include <gtest/gtest.h>

#include "proto/base/error.h"
#include "server/flow/rows_flow.h"
#include "server/flow/session_flow.h"
#include "server/flow/stats_flow.h"
#include "server/flow/tables_flow.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

using PushAnswer = Answer<absl::StatusOr<v1::PushGradResponse>>;

class ExactlyOnce : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto table = node_.CreateTable(SmallSpec("t", 10, 1), v1::SHARDING_TYPE_TABLE_WISE);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = *table;
  }
  PushInput Push(uint64_t sequence, float grad = 1.0f) const {
    PushInput push;
    push.batch.features = {Bags(table_, {{3}})};
    push.batch.features[0].grads = {grad};
    push.sequence = sequence;
    push.first_incomplete = 1;
    return push;
  }
  float Row() { return node_.ReadRows(table_, {3}, false)->rows[0]; }

  TestNode node_;
  v1::Table table_;
};

TEST_F(ExactlyOnce, S7_AReplayOfAnAppliedPushIsAnsweredFromTheWindow) {
  const auto first = node_.Push(Push(1));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(node_.Push(Push(2)).ok());
  const auto again = node_.Push(Push(1));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate());
  EXPECT_EQ(again->version(), 1u);
  EXPECT_EQ(again->rows_updated(), 1u);
  EXPECT_EQ(Row(), -2.0f);
  EXPECT_EQ(GetStats(node_.core(), {}).duplicates_suppressed(), 1u);
}

TEST_F(ExactlyOnce, ADuplicateOfAPushInProgressJoinsIt) {
  PushAnswer first, second;
  const PushInput push = Push(1);
  const auto flow = PushGradFlow::Begin(node_.core(), node_.PushHeader(push), first.Callback());
  ASSERT_TRUE(flow.ok());
  const auto joined = PushGradFlow::Begin(node_.core(), node_.PushHeader(push), second.Callback());
  ASSERT_TRUE(joined.ok());
  EXPECT_TRUE((*joined)->answered());
  EXPECT_FALSE(second.ready());
  ASSERT_TRUE(node_.Feed(**flow, push).ok());
  (*flow)->Start();
  EXPECT_FALSE(first.Wait()->duplicate());
  EXPECT_TRUE(second.Wait()->duplicate());
  EXPECT_EQ(Row(), -1.0f);
}

TEST_F(ExactlyOnce, AnotherDigestUnderTheSameSequenceIsRefused) {
  ASSERT_TRUE(node_.Push(Push(1)).ok());
  PushInput other = Push(1, 5.0f);
  other.digest = 99;
  EXPECT_EQ(ReasonOf(node_.Push(other).status()), Reason::kSeqReused);
  EXPECT_EQ(Row(), -1.0f);
}

TEST_F(ExactlyOnce, ADeterministicRefusalIsKept) {
  PushInput bad = Push(1);
  bad.batch.features[0].ids = {10};
  EXPECT_EQ(ReasonOf(node_.Push(bad).status()), Reason::kIdOutOfRange);
  // The same sequence gets the same answer, even if the request were good now.
  const auto again = node_.Push(Push(1));
  EXPECT_EQ(ReasonOf(again.status()), Reason::kIdOutOfRange);
  EXPECT_EQ(MetadataValue(again.status(), "first_bad_id"), "10");
  EXPECT_EQ(Row(), 0.0f);
}

TEST_F(ExactlyOnce, WhatARetryCanMendReleasesTheClaim) {
  for (const absl::Status& status :
       {absl::UnavailableError("draining"), absl::ResourceExhaustedError("busy"), absl::CancelledError("gone"),
        absl::DeadlineExceededError("late"), MakeError(Reason::kChecksumMismatch, "bytes")}) {
    PushAnswer first, joined;
    const PushInput push = Push(1);
    const auto flow = PushGradFlow::Begin(node_.core(), node_.PushHeader(push), first.Callback());
    ASSERT_TRUE(flow.ok()) << flow.status();
    ASSERT_FALSE((*flow)->answered());
    ASSERT_TRUE(PushGradFlow::Begin(node_.core(), node_.PushHeader(push), joined.Callback()).ok());
    (*flow)->Fail(status);
    EXPECT_FALSE(first.ready());
    EXPECT_FALSE(joined.Wait().ok());
  }
  PushInput stale = Push(1);
  stale.batch.features[0].table.set_placement_version(9);
  EXPECT_EQ(ReasonOf(node_.Push(stale).status()), Reason::kPlanStale);
  ASSERT_TRUE(node_.Push(Push(1)).ok());
  EXPECT_EQ(Row(), -1.0f);
}

TEST_F(ExactlyOnce, AFlowDroppedBeforeStartReleasesItsClaim) {
  const PushInput push = Push(1);
  {
    const auto flow = PushGradFlow::Begin(node_.core(), node_.PushHeader(push), [](auto) { FAIL(); });
    ASSERT_TRUE(flow.ok());
    ASSERT_TRUE(node_.Feed(**flow, push).ok());
  }
  const auto pushed = node_.Push(push);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_FALSE(pushed->duplicate());
  EXPECT_EQ(Row(), -1.0f);
}

TEST_F(ExactlyOnce, AStartedPushIsAppliedThoughNobodyListens) {
  const PushInput push = Push(1);
  PushAnswer answer;
  {
    const auto flow = PushGradFlow::Begin(node_.core(), node_.PushHeader(push), answer.Callback());
    ASSERT_TRUE(node_.Feed(**flow, push).ok());
    (*flow)->Start();
  }
  ASSERT_TRUE(answer.Wait().ok());
  EXPECT_TRUE(node_.Push(push)->duplicate());
  EXPECT_EQ(Row(), -1.0f);
}

TEST_F(ExactlyOnce, EndedSessionsAndOldSequencesAreRefused) {
  ASSERT_TRUE(node_.Push(Push(5)).ok());
  PushInput later = Push(6);
  later.first_incomplete = 6;
  ASSERT_TRUE(node_.Push(later).ok());
  EXPECT_EQ(ReasonOf(node_.Push(Push(5)).status()), Reason::kSeqTooOld);
  v1::CloseSessionRequest close;
  close.set_session_id(node_.session());
  ASSERT_TRUE(CloseSession(node_.core(), close).ok());
  EXPECT_EQ(ReasonOf(node_.Push(Push(7)).status()), Reason::kSessionEnded);
  EXPECT_EQ(Row(), -2.0f);
}

TEST_F(ExactlyOnce, WriteRowsAndUpdateTableCountOnceToo) {
  v1::UpdateTableRequest update;
  *update.mutable_mutation() = node_.NextMutation();
  update.set_table_uid(table_.table_uid());
  update.set_step(41);
  EXPECT_FALSE(node_.UpdateTable(update)->duplicate());
  ASSERT_TRUE(node_.Push(Push(100)).ok());
  update.mutable_mutation()->set_first_incomplete(1);
  const auto again = node_.UpdateTable(update);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate());
  EXPECT_EQ(node_.ReadRows(table_, {3}, false)->step, 42);

  v1::WriteRowsRequest write;
  *write.mutable_mutation() = update.mutation();
  write.mutable_mutation()->set_sequence(200);
  write.set_table_uid(table_.table_uid());
  write.set_placement_version(table_.placement_version());
  const int64_t id = 3;
  const float value = 8;
  write.set_ids(&id, sizeof(id));
  write.set_rows(&value, sizeof(value));
  for (const bool duplicate : {false, true}) {
    Answer<absl::StatusOr<v1::WriteRowsResponse>> answer;
    WriteRows(node_.core(), write, answer.Callback());
    const auto written = answer.Wait();
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->duplicate(), duplicate);
    EXPECT_EQ(written->rows_written(), 1u);
    if (!duplicate) {
      ASSERT_TRUE(node_.Push(Push(201)).ok());
    }
  }
  EXPECT_EQ(Row(), 7.0f);
}

TEST(ExactlyOnceOff, WithoutDedupeAReplayIsAppliedAgain) {
  TestNodeOptions options;
  options.dedupe = false;
  TestNode node(options);
  const auto table = node.CreateTable(SmallSpec("t", 10, 1), v1::SHARDING_TYPE_TABLE_WISE);
  PushInput push;
  push.batch.features = {Bags(*table, {{3}})};
  push.batch.features[0].grads = {1};
  push.sequence = 1;
  ASSERT_TRUE(node.Push(push).ok());
  EXPECT_FALSE(node.Push(push)->duplicate());
  EXPECT_EQ(node.ReadRows(*table, {3}, false)->rows[0], -2.0f);
}

}  // namespace
}  // namespace embps::testing
