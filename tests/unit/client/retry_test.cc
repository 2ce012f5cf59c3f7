// What the SDK does when calls fail: retries, unknown outcomes, replays, restarts, stale plans, expired tokens.
#include <set>

#include "embps/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/error.h"
#include "tests/unit/client/fake_cluster.h"

namespace embps::client {
namespace {

constexpr char kPush[] = "/embps.v1.EmbeddingService/PushGrad";
constexpr char kPushStream[] = "/embps.v1.EmbeddingService/PushGradStream";
constexpr char kLookupCall[] = "/embps.v1.EmbeddingService/Lookup";

class RetryTest : public ::testing::Test {
 protected:
  RetryTest() : cluster_({1, 1}) { Connect(cluster_.Options()); }
  void Connect(const ClientOptions& options) {
    client_ = cluster_.ConnectOrDie(options);
    ASSERT_TRUE(client_
                    ->CreateTables({MakeTable("r", 10, 1, {"r"}, Pooling::kSum, ShardingType::kRowWise),
                                    MakeTable("big", 10, 1024, {"big"}, Pooling::kSum, ShardingType::kTableWise, 0)})
                    .ok());
  }
  // Fails the first `count` attempts of `method` at `node`.
  void FailFirst(int count, int node, const std::string& method, Fault fault) {
    cluster_.SetFaults([left = count, node, method, fault](int n, const std::string& m) mutable -> Fault {
      if (n != node || m != method || left == 0) return {};
      --left;
      return fault;
    });
  }
  PushOutcome PushBoth() { return PushGrad(*client_, both_, Gradients::Pooled({1, 2})); }
  float Read(int64_t row) { return client_->ReadRows("r", {row}, false)->values.at(0); }
  int64_t Applied(int node) {
    return cluster_.With(node, [](FakeServer& s) { return s.pushes_applied; });
  }

  FakeCluster cluster_;
  std::unique_ptr<ClientImpl> client_;
  const KeyedJaggedTensor both_{.keys = {"r"}, .lengths = {1, 1}, .values = {0, 9}};
};

TEST_F(RetryTest, F1_UnavailableTwiceIsRetriedWithTheSameSequence) {
  for (int rows : {75, 2000}) {  // 300 KB unary, 8 MB streamed
    const char* method = rows == 75 ? kPush : kPushStream;
    FailFirst(2, 0, method, {.refuse = absl::UnavailableError("gone")});
    KeyedJaggedTensor kjt{.keys = {"big"}};
    for (int i = 0; i < rows; ++i) kjt.lengths.push_back(1), kjt.values.push_back(i % 10);
    const std::vector<float> grads(static_cast<size_t>(rows) * 1024, 1.0f);
    const int64_t before = Applied(0);
    const PushOutcome outcome = PushGrad(*client_, kjt, Gradients::Pooled(grads));
    ASSERT_TRUE(outcome.ok()) << outcome.status;
    EXPECT_EQ(outcome.nodes.at(0).attempts, 3);
    EXPECT_EQ(Applied(0), before + 1);
    EXPECT_GT(cluster_.scheduler().waited().count(), 0);
  }
}

TEST_F(RetryTest, S7_ALostReplyIsRetriedAndTheRowMovesOnce) {
  FailFirst(1, 1, kPush, {.lose_reply = absl::UnavailableError("connection reset")});
  const PushOutcome outcome = PushBoth();
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  EXPECT_FALSE(outcome.nodes.at(0).duplicate);
  EXPECT_TRUE(outcome.nodes.at(1).duplicate);
  EXPECT_EQ(Applied(1), 1);
  EXPECT_EQ(Read(9), InitialValue(9, 0) - 2);
  cluster_.With(1, [](FakeServer& s) {
    EXPECT_EQ(s.mutations.at(0).sequence(), s.mutations.at(1).sequence());
    EXPECT_EQ(s.mutations.at(0).push_digest(), s.mutations.at(1).push_digest());
    return 0;
  });
}

TEST_F(RetryTest, ResourceExhaustedIsRetriedButTooLargeIsNot) {
  FailFirst(1, 0, kLookupCall, {.refuse = MakeError(Reason::kInflightBytes, "busy")});
  EXPECT_TRUE(Lookup(*client_, both_).ok());
  FailFirst(1, 0, kLookupCall, {.refuse = MakeError(Reason::kMessageTooLarge, "too large")});
  EXPECT_EQ(ErrorReason(Lookup(*client_, both_).status()), "MESSAGE_TOO_LARGE");
}

TEST_F(RetryTest, S1_CallsToADeadNodeFailUnavailableWithinTheirDeadline) {
  FailFirst(1 << 20, 1, kLookupCall, {.refuse = absl::UnavailableError("connection refused")});
  LookupOptions options;
  options.timeout_ms = 3000;
  const TimePoint begin = cluster_.scheduler().Now();
  const absl::Status status = Lookup(*client_, both_, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_LE(cluster_.scheduler().Now() - begin, std::chrono::milliseconds(3000));
}

TEST_F(RetryTest, MaxAttemptsBoundsTheRetries) {
  ClientOptions options = cluster_.Options();
  options.retry.max_attempts = 2;
  Connect(options);
  FailFirst(2, 0, kPush, {.refuse = absl::UnavailableError("gone")});
  const PushOutcome outcome = PushBoth();
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(outcome.nodes.at(0).attempts, 2);
  EXPECT_TRUE(outcome.nodes.at(1).status.ok());
}

TEST_F(RetryTest, S29_APushThatTimesOutIsUnknownAndItsReplayIsSafe) {
  FailFirst(1, 1, kPush, {.lose_reply = absl::DeadlineExceededError("time out")});
  const PushOutcome outcome = PushBoth();
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(outcome.unknown());
  ASSERT_NE(outcome.replay, nullptr);
  EXPECT_TRUE(outcome.nodes.at(0).status.ok());
  // Later pushes tell the server that this one is still open.
  ASSERT_TRUE(PushBoth().ok());
  EXPECT_EQ(cluster_.With(1, [](FakeServer& s) { return s.mutations.back().first_incomplete(); }), outcome.sequence);

  const PushOutcome replayed = Replay(*client_, outcome);
  ASSERT_TRUE(replayed.ok()) << replayed.status;
  EXPECT_TRUE(replayed.nodes.at(1).duplicate);
  EXPECT_EQ(replayed.sequence, outcome.sequence);
  EXPECT_EQ(Applied(0), 2);
  EXPECT_EQ(Applied(1), 2);
  EXPECT_EQ(cluster_.With(0, [](FakeServer& s) { return s.mutations.size(); }), 2u);  // never asked again
  EXPECT_EQ(Read(9), InitialValue(9, 0) - 4);

  const PushOutcome again = Replay(*client_, outcome);  // nothing is left to send
  EXPECT_TRUE(again.ok()) << again.status;
  EXPECT_EQ(Applied(1), 2);
}

TEST_F(RetryTest, AReplayKeepsItsOwnCopyOfTheData) {
  FailFirst(1, 0, kPush, {.refuse = absl::DeadlineExceededError("never arrived")});
  PushOutcome outcome;
  {
    KeyedJaggedTensor kjt = both_;
    std::vector<float> grads = {5, 6};
    outcome = PushGrad(*client_, kjt, Gradients::Pooled(grads));
    grads = {0, 0};
    kjt.values = {1, 1};
  }
  EXPECT_TRUE(outcome.unknown());
  ASSERT_TRUE(Replay(*client_, outcome).ok());
  EXPECT_EQ(Read(0), InitialValue(0, 0) - 5);
  EXPECT_EQ(Read(9), InitialValue(9, 0) - 6);
}

TEST_F(RetryTest, GivingUpAnUnknownPushClosesItsSequence) {
  FailFirst(1, 1, kPush, {.lose_reply = absl::DeadlineExceededError("time out")});
  { EXPECT_TRUE(PushBoth().unknown()); }
  const PushOutcome next = PushBoth();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(cluster_.With(1, [](FakeServer& s) { return s.mutations.back().first_incomplete(); }), next.sequence);
}

TEST_F(RetryTest, ADeterministicRefusalIsFinal) {
  cluster_.SetFaults([](int, const std::string& m) -> Fault {
    if (m == kPush) return {.refuse = MakeError(Reason::kBadJaggedLayout, "no")};
    return {};
  });
  const PushOutcome outcome = PushBoth();
  EXPECT_EQ(ErrorReason(outcome.status), "BAD_JAGGED_LAYOUT");
  EXPECT_FALSE(outcome.unknown());
  EXPECT_EQ(outcome.replay, nullptr);
}

TEST_F(RetryTest, PlanStaleRefreshesAndSendsOnlyWhatIsMissing) {
  cluster_.With(0, [](FakeServer& s) {
    s.BumpPlacementVersion("r");
    return 0;
  });
  ASSERT_TRUE(Lookup(*client_, both_).ok() == false);  // node 1 still has the old version
  cluster_.With(1, [](FakeServer& s) {
    s.BumpPlacementVersion("r");
    return 0;
  });
  EXPECT_TRUE(Lookup(*client_, both_).ok());

  // Node 0 applies its part under the version that the client knows and moves on then; node 1 has moved on before.
  const int64_t before = Applied(0);
  cluster_.With(1, [](FakeServer& s) {
    s.BumpPlacementVersion("r");
    return 0;
  });
  bool moved_on = false;
  cluster_.SetFaults([&](int, const std::string& method) -> Fault {
    if (method == "/embps.v1.TableService/ListTables" && !moved_on) {
      moved_on = true;
      cluster_.LockedServer(0).BumpPlacementVersion("r");
    }
    return {};
  });
  const PushOutcome outcome = PushBoth();
  EXPECT_TRUE(moved_on);
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  EXPECT_EQ(Applied(0), before + 1);
  EXPECT_EQ(Applied(1), 1);
}

TEST_F(RetryTest, AnExpiredTokenSendsTheIdsUnderTheSameSequence) {
  LookupOptions want;
  want.want_token = true;
  const auto result = Lookup(*client_, both_, want);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_NE(result->token, nullptr);
  PushOptions options;
  options.token = result->token;
  ASSERT_TRUE(PushGrad(*client_, both_, Gradients::Pooled({1, 2}), options).ok());
  EXPECT_EQ(cluster_.With(0, [](FakeServer& s) { return s.push_headers.at(0).lookup_token().size(); }), 16u);
  cluster_.With(1, [](FakeServer& s) {
    s.ForgetTokens();
    return 0;
  });
  const PushOutcome outcome = PushGrad(*client_, both_, Gradients::Pooled({1, 2}), options);
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  EXPECT_EQ(Applied(0), 2);
  EXPECT_EQ(Applied(1), 2);
  EXPECT_EQ(Read(0), InitialValue(0, 0) - 2);
  EXPECT_EQ(Read(9), InitialValue(9, 0) - 4);
}

TEST_F(RetryTest, ATokenOfAnotherBatchIsNotUsed) {
  LookupOptions want;
  want.want_token = true;
  const auto result = Lookup(*client_, both_, want);
  ASSERT_TRUE(result.ok());
  PushOptions options;
  options.token = result->token;
  ASSERT_TRUE(PushGrad(*client_, KeyedJaggedTensor{.keys = {"r"}, .lengths = {1, 1}, .values = {1, 9}},
                       Gradients::Pooled({1, 2}), options)
                  .ok());
  EXPECT_EQ(Read(1), InitialValue(1, 0) - 1);
  EXPECT_EQ(Read(0), InitialValue(0, 0));
}

TEST_F(RetryTest, S2_ARestartIsAnnouncedAndRecoverResumes) {
  ASSERT_TRUE(PushBoth().ok());
  cluster_.With(1, [](FakeServer& s) {
    s.Restart();
    return 0;
  });
  EXPECT_EQ(ErrorReason(Lookup(*client_, both_).status()), "STATE_ROLLED_BACK");
  const PushOutcome lost = PushBoth();
  EXPECT_EQ(ErrorReason(lost.status), "STATE_ROLLED_BACK");
  EXPECT_TRUE(lost.nodes.at(0).status.ok());
  EXPECT_EQ(client_->cluster().rollback_count(), 1u);
  EXPECT_EQ(ErrorReason(Lookup(*client_, both_).status()), "STATE_ROLLED_BACK");  // never silently
  ASSERT_TRUE(client_->cluster().Recover(cluster_.scheduler().Now() + std::chrono::seconds(10)).ok());
  // The part that never arrived is applied to the new state.
  const PushOutcome replayed = Replay(*client_, lost);
  ASSERT_TRUE(replayed.ok()) << replayed.status;
  EXPECT_EQ(Read(0), InitialValue(0, 0) - 2);
  EXPECT_EQ(Read(9), InitialValue(9, 0) - 2);
  EXPECT_TRUE(PushBoth().ok());
}

TEST_F(RetryTest, S1_RecreateGoesOnByItselfAndCounts) {
  ClientOptions options = cluster_.Options();
  options.on_rollback = OnRollback::kRecreate;
  Connect(options);
  ASSERT_TRUE(PushBoth().ok());
  for (int node = 0; node < 2; ++node)
    cluster_.With(node, [](FakeServer& s) {
      s.Restart();
      return 0;
    });
  const auto result = Lookup(*client_, both_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->pooled.values()[0], InitialValue(0, 0));
  EXPECT_EQ(result->nodes.at(0).incarnation, 1100u);
  const PushOutcome outcome = PushBoth();
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  EXPECT_EQ(Read(9), InitialValue(9, 0) - 2);
  EXPECT_EQ(client_->cluster().rollback_count(), 2u);
}

TEST_F(RetryTest, AnEndedSessionIsRaisedAndNeverReplacedForAnUnknownPush) {
  FailFirst(1, 1, kPush, {.lose_reply = absl::DeadlineExceededError("time out")});
  const PushOutcome unknown = PushBoth();
  cluster_.With(1, [](FakeServer& s) {
    s.EndSessions();
    return 0;
  });
  EXPECT_EQ(ErrorReason(PushBoth().status), "SESSION_ENDED");
  ASSERT_TRUE(client_->cluster().Recover(cluster_.scheduler().Now() + std::chrono::seconds(10)).ok());
  EXPECT_TRUE(PushBoth().ok());
  const PushOutcome replayed = Replay(*client_, unknown);
  EXPECT_EQ(ErrorReason(replayed.status), "SESSION_ENDED");
  EXPECT_EQ(cluster_.With(1, [](FakeServer& s) { return s.pushes_applied; }), 2);
}

// Else the next push would be applied by the node whose session was reopened and refused for good by the other.
TEST_F(RetryTest, OneRecoverReopensTheEndedSessionsOfAllNodesThatAPushMet) {
  for (int node = 0; node < 2; ++node) {
    cluster_.With(node, [](FakeServer& s) {
      s.EndSessions();
      return 0;
    });
  }
  EXPECT_EQ(ErrorReason(PushBoth().status), "SESSION_ENDED");
  ASSERT_TRUE(client_->cluster().Recover(cluster_.scheduler().Now() + std::chrono::seconds(10)).ok());
  const PushOutcome outcome = PushBoth();
  EXPECT_TRUE(outcome.ok()) << outcome.status;
  EXPECT_EQ(Applied(0), 1);
  EXPECT_EQ(Applied(1), 1);
}

TEST_F(RetryTest, APushThatCannotGetItsTurnInTimeWasNeverSent) {
  bool hang = true;
  cluster_.SetFaults([&hang](int, const std::string& method) -> Fault {
    Fault fault;
    fault.hang = hang && method == kPush;
    return fault;
  });
  const std::vector<float> grads = {1, 2};
  std::atomic<int> done{0};
  client_->PushGradAsync(both_, Gradients::Pooled(grads), {}, [&](PushOutcome) { ++done; });
  PushOptions options;
  options.timeout_ms = 1000;  // within the fake scheduler's jump
  const PushOutcome outcome = PushGrad(*client_, both_, Gradients::Pooled(grads), options);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(outcome.nodes.empty());
  EXPECT_FALSE(outcome.unknown());
  while (cluster_.hung_count() < 2) std::this_thread::yield();
  cluster_.ReleaseHung();
  client_.reset();
  EXPECT_EQ(done.load(), 1);
}

}  // namespace
}  // namespace embps::client
