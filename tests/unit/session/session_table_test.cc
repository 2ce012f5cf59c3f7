// Life of a mutation and of a session.
#include "server/session/session_table.h"

#include <gtest/gtest.h>

#include "tests/unit/session/session_fixture.h"

namespace embps {
namespace {

using testing::At;
using testing::Key;
using testing::Kind;
using testing::RefusalOf;
using testing::SessionId;

class SessionTableTest : public ::testing::Test {
 protected:
  void Open(SessionTable& table, int session, int64_t second = 0) {
    ASSERT_TRUE(table.Open(SessionId(session), {"default", "test"}, At(second)).ok());
  }
  void Apply(SessionTable& table, const MutationKey& key, const std::string& reply, int64_t second = 0) {
    ASSERT_EQ(table.Claim(key, At(second)).kind, Kind::kFresh);
    table.SettleApplied(key.session_id, key.sequence, reply, At(second));
  }
};

TEST_F(SessionTableTest, ADuplicateOfAnAppliedMutationGetsTheKeptReply) {
  SessionTable table({});
  Open(table, 1);
  Apply(table, Key(1, 1), "reply one");
  for (int retry = 0; retry < 3; ++retry) {
    const ClaimResult result = table.Claim(Key(1, 1), At(1));
    ASSERT_EQ(result.kind, Kind::kApplied);
    EXPECT_EQ(result.reply, "reply one");
  }
}

TEST_F(SessionTableTest, ADuplicateOfOneInProgressJoinsIt) {
  SessionTable table({});
  Open(table, 1);
  ASSERT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  EXPECT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kJoined);
  EXPECT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kJoined);
  table.SettleApplied(SessionId(1), 1, "done", At(0));
  EXPECT_EQ(table.Claim(Key(1, 1), At(0)).reply, "done");
}

TEST_F(SessionTableTest, AnotherDigestIsSeqReusedInEveryState) {
  SessionTable table({});
  Open(table, 1);
  ASSERT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  const ClaimResult in_progress = table.Claim(Key(1, 1, 1, 78), At(0));
  EXPECT_EQ(RefusalOf(in_progress), Reason::kSeqReused);
  EXPECT_FALSE(in_progress.kept);
  EXPECT_NE(in_progress.status.message().find("client 'test'"), absl::string_view::npos);
  table.SettleApplied(SessionId(1), 1, "done", At(0));
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 1, 1, 78), At(0))), Reason::kSeqReused);
  ASSERT_EQ(table.Claim(Key(1, 2), At(0)).kind, Kind::kFresh);
  table.SettleRefused(SessionId(1), 2, MakeError(Reason::kDimMismatch, "dim"), At(0));
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 2, 1, 78), At(0))), Reason::kSeqReused);
  EXPECT_EQ(table.Claim(Key(1, 1), At(0)).reply, "done");  // the entries are untouched
}

TEST_F(SessionTableTest, ARefusalIsKeptWithItsMetadata) {
  SessionTable table({});
  Open(table, 1);
  ASSERT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  table.SettleRefused(SessionId(1), 1, MakeError(Reason::kIdOutOfRange, "id 9", {{"first_id", "9"}}), At(0));
  const ClaimResult result = table.Claim(Key(1, 1), At(5));
  ASSERT_EQ(result.kind, Kind::kRefused);
  EXPECT_TRUE(result.kept);
  EXPECT_EQ(RefusalOf(result), Reason::kIdOutOfRange);
  EXPECT_EQ(MetadataValue(result.status, "first_id"), "9");
}

TEST_F(SessionTableTest, AReleasedClaimLeavesNothingBehind) {
  SessionTable table({});
  Open(table, 1);
  ASSERT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  table.Release(SessionId(1), 1, At(0));
  EXPECT_EQ(table.entry_count(SessionId(1)), 0);
  EXPECT_EQ(table.bytes_used(SessionId(1)), 0);
  EXPECT_EQ(table.Claim(Key(1, 1, 1, 99), At(0)).kind, Kind::kFresh);
}

TEST_F(SessionTableTest, GapsBetweenSequencesAreLegal) {
  SessionTable table({});
  Open(table, 1);
  Apply(table, Key(1, 1000), "k");
  Apply(table, Key(1, 3), "c");
  Apply(table, Key(1, uint64_t{1} << 63), "far");
  EXPECT_EQ(table.Claim(Key(1, 1000), At(0)).reply, "k");
  EXPECT_EQ(table.Claim(Key(1, 3), At(0)).reply, "c");
  EXPECT_EQ(table.entry_count(SessionId(1)), 3);
}

TEST_F(SessionTableTest, FirstIncompleteDropsWhatIsBelowExactly) {
  SessionTable table({});
  Open(table, 1);
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) Apply(table, Key(1, sequence), "r");
  Apply(table, Key(1, 6, 4), "r");
  EXPECT_EQ(table.entry_count(SessionId(1)), 3);
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 3, 3), At(0))), Reason::kSeqTooOld);
  EXPECT_EQ(table.Claim(Key(1, 4, 4), At(0)).kind, Kind::kApplied);
}

TEST_F(SessionTableTest, FirstIncompleteNeverMovesBack) {
  SessionTable table({});
  Open(table, 1);
  Apply(table, Key(1, 10, 10), "ten");
  Apply(table, Key(1, 11, 2), "eleven");  // sent before 10 was known to be complete, arrived late
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 9, 1), At(0))), Reason::kSeqTooOld);
  EXPECT_EQ(table.Claim(Key(1, 10, 1), At(0)).kind, Kind::kApplied);
}

TEST_F(SessionTableTest, OneInProgressBelowFirstIncompleteRunsOutAndIsNotKept) {
  SessionTable table({});
  Open(table, 1);
  ASSERT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  Apply(table, Key(1, 5, 5), "five");
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 1), At(0))), Reason::kSeqTooOld);
  EXPECT_EQ(table.entry_count(SessionId(1)), 2);
  table.SettleApplied(SessionId(1), 1, "too late", At(0));
  EXPECT_EQ(table.entry_count(SessionId(1)), 1);
  EXPECT_EQ(table.bytes_used(SessionId(1)), kSessionEntryBytes + 4);
}

TEST_F(SessionTableTest, MalformedKeysAreRefusedByField) {
  SessionTable table({});
  Open(table, 1);
  for (const MutationKey& key : {Key(1, 0, 0), Key(1, 0, 1), Key(1, 5, 0), Key(1, 5, 6), MutationKey{"short", 1, 1, 0},
                                 MutationKey{"", 1, 1, 0}}) {
    const ClaimResult result = table.Claim(key, At(0));
    EXPECT_EQ(result.kind, Kind::kRefused);
    EXPECT_FALSE(result.kept);
    EXPECT_EQ(RefusalOf(result), Reason::kMalformed);
    EXPECT_NE(result.status.message().find("mutation."), absl::string_view::npos);
  }
  EXPECT_EQ(table.entry_count(SessionId(1)), 0);
}

TEST_F(SessionTableTest, UnknownAndClosedSessionsHaveEnded) {
  SessionTable table({});
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 1), At(0))), Reason::kSessionEnded);
  EXPECT_EQ(ReasonOf(table.Touch(SessionId(1), At(0))), Reason::kSessionEnded);
  EXPECT_EQ(ReasonOf(table.Close(SessionId(1), At(0))), Reason::kSessionEnded);
  Open(table, 1);
  EXPECT_TRUE(table.Touch(SessionId(1), At(0)).ok());
  Apply(table, Key(1, 1), "r");
  EXPECT_TRUE(table.Close(SessionId(1), At(0)).ok());
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 1), At(0))), Reason::kSessionEnded);
  EXPECT_EQ(ReasonOf(table.Close(SessionId(1), At(0))), Reason::kSessionEnded);
  EXPECT_EQ(table.open_count(), 0);
}

TEST_F(SessionTableTest, AClaimRunsOutAfterItsSessionWasClosed) {
  SessionTable table({});
  Open(table, 1);
  Apply(table, Key(1, 1), "kept");
  ASSERT_EQ(table.Claim(Key(1, 2), At(0)).kind, Kind::kFresh);
  ASSERT_EQ(table.Claim(Key(1, 3), At(0)).kind, Kind::kFresh);
  EXPECT_TRUE(table.Close(SessionId(1), At(0)).ok());
  EXPECT_EQ(table.open_count(), 0);
  EXPECT_EQ(table.entry_count(SessionId(1)), 2);
  table.SettleApplied(SessionId(1), 2, "r", At(0));
  EXPECT_EQ(RefusalOf(table.Claim(Key(1, 2), At(0))), Reason::kSessionEnded);
  table.Release(SessionId(1), 3, At(0));
  EXPECT_EQ(table.entry_count(SessionId(1)), 0);
}

TEST_F(SessionTableTest, OneMoreThanMaxSessionsEvictsTheLongestIdle) {
  SessionTable table({.max_sessions = 3});
  for (int s = 1; s <= 3; ++s) Open(table, s, s);
  EXPECT_TRUE(table.Touch(SessionId(1), At(4)).ok());  // now 2 is the longest idle
  Open(table, 4, 5);
  EXPECT_EQ(table.open_count(), 3);
  EXPECT_EQ(RefusalOf(table.Claim(Key(2, 1), At(6))), Reason::kSessionEnded);
  for (const int s : {1, 3, 4}) EXPECT_TRUE(table.Touch(SessionId(s), At(6)).ok()) << s;
}

TEST_F(SessionTableTest, AClaimInProgressPinsItsSession) {
  SessionTable table({.max_sessions = 2, .idle_expiry = std::chrono::seconds(100)});
  Open(table, 1, 0);
  Open(table, 2, 1);
  ASSERT_EQ(table.Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  Open(table, 3, 2);  // evicts 2, although 1 was used earlier
  EXPECT_EQ(RefusalOf(table.Claim(Key(2, 1), At(3))), Reason::kSessionEnded);
  ASSERT_EQ(table.Claim(Key(3, 1), At(3)).kind, Kind::kFresh);
  EXPECT_EQ(ReasonOf(table.Open(SessionId(4), {}, At(4))), Reason::kQueueFull);  // all are pinned
  EXPECT_EQ(table.Claim(Key(1, 1), At(500)).kind, Kind::kJoined);                // nor does it expire
  table.SettleApplied(SessionId(1), 1, "r", At(500));
  EXPECT_EQ(table.Claim(Key(1, 1), At(501)).reply, "r");
  EXPECT_TRUE(table.Open(SessionId(4), {}, At(502)).ok());
}

TEST_F(SessionTableTest, AnIdleSessionExpiresAtItsTime) {
  SessionTable table({.idle_expiry = std::chrono::seconds(100)});
  Open(table, 1, 0);
  Open(table, 2, 50);
  EXPECT_TRUE(table.Touch(SessionId(1), At(99)).ok());
  EXPECT_TRUE(table.Touch(SessionId(2), At(149)).ok());
  EXPECT_TRUE(table.Touch(SessionId(1), At(198)).ok());
  EXPECT_EQ(ReasonOf(table.Touch(SessionId(2), At(249))), Reason::kSessionEnded);
  EXPECT_EQ(table.open_count(), 1);
}

TEST_F(SessionTableTest, TimeThatSeemsToGoBackIsTheLatestSeen) {
  SessionTable table({.idle_expiry = std::chrono::seconds(100)});
  Open(table, 1, 1000);
  Open(table, 2, 0);  // a thread that read its clock earlier and came later
  EXPECT_TRUE(table.Touch(SessionId(2), At(1050)).ok());
  EXPECT_TRUE(table.Touch(SessionId(1), At(1099)).ok());
}

TEST_F(SessionTableTest, S28_ThreeHundredClientsDoNotCollide) {
  SessionTable table({});
  for (int s = 0; s < 300; ++s) Open(table, s);
  for (int s = 0; s < 300; ++s) Apply(table, Key(s, 1), "reply of " + std::to_string(s));
  for (int s = 0; s < 300; ++s) EXPECT_EQ(table.Claim(Key(s, 1), At(1)).reply, "reply of " + std::to_string(s));
}

TEST_F(SessionTableTest, OptionsNameAllTheirFaults) {
  SessionOptions options;
  EXPECT_TRUE(options.Validate().ok());
  options.window_entries = 0;
  options.max_sessions = 0;
  options.window_bytes = 10;
  options.idle_expiry = std::chrono::seconds(0);
  const std::string message(options.Validate().message());
  for (const char* field : {"window_entries", "max_sessions", "window_bytes", "idle_expiry"}) {
    EXPECT_NE(message.find(field), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace embps
