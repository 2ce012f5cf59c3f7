#include "server/session/session_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/session/session_fixture.h"

namespace embps {
namespace {

using testing::At;
using testing::Key;
using testing::Kind;
using testing::SessionId;

class SessionStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store_.Open(SessionId(1), {}, At(0)).ok()); }

  ClaimResult Claim(const MutationKey& key, SessionClaim* claim) { return store_.Claim(key, At(0), claim, Collect()); }
  SessionStore::JoinCallback Collect() {
    return [this](absl::StatusOr<std::string> outcome) { answers_.push_back(std::move(outcome)); };
  }

  std::vector<absl::StatusOr<std::string>> answers_;
  SessionStore store_{SessionOptions{}};
};

TEST_F(SessionStoreTest, JoinedDuplicatesGetTheOwnersReply) {
  SessionClaim owner, other;
  ASSERT_EQ(Claim(Key(1, 1), &owner).kind, Kind::kFresh);
  ASSERT_TRUE(owner.held());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Claim(Key(1, 1), &other).kind, Kind::kJoined);
  EXPECT_FALSE(other.held());
  EXPECT_TRUE(answers_.empty());
  owner.Applied("the reply", At(1));
  EXPECT_FALSE(owner.held());
  ASSERT_EQ(answers_.size(), 3u);
  for (const auto& answer : answers_) EXPECT_EQ(answer.value(), "the reply");
  EXPECT_EQ(Claim(Key(1, 1), &other).reply, "the reply");
  EXPECT_EQ(answers_.size(), 3u);  // an answered duplicate is not called back
  EXPECT_EQ(store_.duplicates_suppressed(), 4u);
}

TEST_F(SessionStoreTest, JoinedDuplicatesGetTheOwnersRefusal) {
  SessionClaim owner, other;
  ASSERT_EQ(Claim(Key(1, 1), &owner).kind, Kind::kFresh);
  ASSERT_EQ(Claim(Key(1, 1), &other).kind, Kind::kJoined);
  owner.Refused(MakeError(Reason::kNonfiniteGradient, "NaN"), At(1));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(ReasonOf(answers_[0].status()), Reason::kNonfiniteGradient);
  EXPECT_TRUE(Claim(Key(1, 1), &other).kept);
}

TEST_F(SessionStoreTest, AReleaseTellsJoinersToRetryAndTheNextRetryOwnsTheClaim) {
  SessionClaim owner, other;
  ASSERT_EQ(Claim(Key(1, 1), &owner).kind, Kind::kFresh);
  ASSERT_EQ(Claim(Key(1, 1), &other).kind, Kind::kJoined);
  owner.Release(absl::DeadlineExceededError("first call gave up"), At(1));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(answers_[0].status()));
  EXPECT_EQ(Claim(Key(1, 1), &other).kind, Kind::kFresh);
}

TEST_F(SessionStoreTest, AReleaseForWantOfRoomOrServerIsPassedOnToJoiners) {
  for (const Reason reason : {Reason::kDraining, Reason::kInflightBytes}) {
    SessionClaim owner, other;
    ASSERT_EQ(Claim(Key(1, 1), &owner).kind, Kind::kFresh);
    ASSERT_EQ(Claim(Key(1, 1), &other).kind, Kind::kJoined);
    owner.Release(MakeError(reason, "not now"), At(1));
    EXPECT_EQ(ReasonOf(answers_.back().status()), reason);
  }
}

TEST_F(SessionStoreTest, ADroppedClaimIsReleased) {
  SessionClaim other;
  {
    SessionClaim owner;
    ASSERT_EQ(Claim(Key(1, 1), &owner).kind, Kind::kFresh);
    ASSERT_EQ(Claim(Key(1, 1), &other).kind, Kind::kJoined);
    SessionClaim moved = std::move(owner);
    EXPECT_FALSE(owner.held());
    EXPECT_TRUE(moved.held());
    EXPECT_TRUE(answers_.empty());
  }
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(answers_[0].status()));
  EXPECT_EQ(Claim(Key(1, 1), &other).kind, Kind::kFresh);
}

TEST_F(SessionStoreTest, JoinersAreAnsweredAlsoAfterTheSessionWasClosed) {
  SessionClaim owner, other;
  ASSERT_EQ(Claim(Key(1, 1), &owner).kind, Kind::kFresh);
  ASSERT_EQ(Claim(Key(1, 1), &other).kind, Kind::kJoined);
  ASSERT_TRUE(store_.Close(SessionId(1), At(1)).ok());
  owner.Applied("late", At(2));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].value(), "late");
  EXPECT_EQ(ReasonOf(Claim(Key(1, 1), &other).status), Reason::kSessionEnded);
}

TEST_F(SessionStoreTest, AJoinerMayClaimAgainFromItsCallback) {
  SessionClaim owner, unused, next;
  ASSERT_EQ(Claim(Key(1, 1), &owner).kind, Kind::kFresh);
  Kind again = Kind::kRefused;
  ASSERT_EQ(
      store_
          .Claim(Key(1, 1), At(0), &unused, [&](absl::StatusOr<std::string>) { again = Claim(Key(1, 1), &next).kind; })
          .kind,
      Kind::kJoined);
  owner.Release(absl::CancelledError("gone"), At(1));
  EXPECT_EQ(again, Kind::kFresh);
}

TEST_F(SessionStoreTest, RefusalsOfThisCallAreNotSuppressedDuplicates) {
  SessionClaim claim;
  EXPECT_EQ(Claim(Key(2, 1), &claim).kind, Kind::kRefused);
  EXPECT_EQ(Claim(Key(1, 0), &claim).kind, Kind::kRefused);
  EXPECT_EQ(store_.duplicates_suppressed(), 0u);
  EXPECT_EQ(store_.open_count(), 1);
}

// Every sequence is sent by every thread; each must be applied by exactly one of them and answered to all.
TEST_F(SessionStoreTest, ConcurrentRetriesApplyEachMutationOnce) {
  constexpr int kThreads = 4;
  constexpr uint64_t kSequences = 200;
  std::vector<std::atomic<int>> applied(kSequences + 1);
  std::atomic<uint64_t> right_answers{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t sequence = 1; sequence <= kSequences; ++sequence) {
        const std::string reply = std::to_string(sequence);
        SessionClaim claim;
        const ClaimResult result =
            store_.Claim(Key(1, sequence), At(0), &claim, [&right_answers, reply](absl::StatusOr<std::string> outcome) {
              if (outcome.ok() && *outcome == reply) right_answers.fetch_add(1);
            });
        if (result.kind == Kind::kApplied && result.reply == reply) right_answers.fetch_add(1);
        if (result.kind != Kind::kFresh) continue;
        applied[sequence].fetch_add(1);
        right_answers.fetch_add(1);
        claim.Applied(reply, At(0));
      }
    });
  }
  threads.clear();
  for (uint64_t sequence = 1; sequence <= kSequences; ++sequence) EXPECT_EQ(applied[sequence].load(), 1) << sequence;
  EXPECT_EQ(right_answers.load(), kThreads * kSequences);
  EXPECT_EQ(store_.duplicates_suppressed(), (kThreads - 1) * kSequences);
}

}  // namespace
}  // namespace embps
