// The bounds of one session's window.
#include <gtest/gtest.h>

#include <optional>

#include "server/session/session_table.h"
#include "tests/unit/session/session_fixture.h"

namespace embps {
namespace {

using testing::At;
using testing::Key;
using testing::Kind;
using testing::RefusalOf;
using testing::SessionId;

class SessionWindowTest : public ::testing::Test {
 protected:
  void Make(const SessionOptions& options) {
    table_.emplace(options);
    ASSERT_TRUE(table_->Open(SessionId(1), {}, At(0)).ok());
  }
  void Apply(uint64_t sequence, const std::string& reply, uint64_t first_incomplete = 1) {
    ASSERT_EQ(table_->Claim(Key(1, sequence, first_incomplete), At(0)).kind, Kind::kFresh) << sequence;
    table_->SettleApplied(SessionId(1), sequence, reply, At(0));
  }
  std::optional<SessionTable> table_;
};

TEST_F(SessionWindowTest, S28_AFullWindowRefusesANewSequenceAndKeepsEveryOutcome) {
  Make({.window_entries = 4});
  for (uint64_t sequence = 2; sequence <= 5; ++sequence) Apply(sequence, "r" + std::to_string(sequence));
  const ClaimResult refused = table_->Claim(Key(1, 6), At(0));
  EXPECT_EQ(RefusalOf(refused), Reason::kQueueFull);
  EXPECT_FALSE(refused.kept);
  for (uint64_t sequence = 2; sequence <= 5; ++sequence) {
    EXPECT_EQ(table_->Claim(Key(1, sequence), At(0)).reply, "r" + std::to_string(sequence));
  }
}

TEST_F(SessionWindowTest, AFullWindowTakesNewSequencesOnceFirstIncompleteMoves) {
  Make({.window_entries = 2});
  Apply(2, "a");
  Apply(3, "b");
  EXPECT_EQ(RefusalOf(table_->Claim(Key(1, 4, 2), At(0))), Reason::kQueueFull);
  Apply(4, "c", 3);
  EXPECT_EQ(table_->entry_count(SessionId(1)), 2);
}

// Sequence 1 was released while 2, 3 filled the window: only 1 lets the client move on.
TEST_F(SessionWindowTest, TheFirstIncompleteSequenceAlwaysGetsItsPlace) {
  Make({.window_entries = 2});
  ASSERT_EQ(table_->Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  Apply(2, "b");
  table_->Release(SessionId(1), 1, At(0));
  Apply(3, "c");
  EXPECT_EQ(RefusalOf(table_->Claim(Key(1, 4), At(0))), Reason::kQueueFull);
  Apply(1, "a");
  EXPECT_EQ(table_->entry_count(SessionId(1)), 3);
  EXPECT_EQ(RefusalOf(table_->Claim(Key(1, 4), At(0))), Reason::kQueueFull);
  Apply(4, "d", 4);
  EXPECT_EQ(table_->entry_count(SessionId(1)), 1);
}

TEST_F(SessionWindowTest, ClaimsInProgressCountAndAReleaseMakesRoom) {
  Make({.window_entries = 2});
  ASSERT_EQ(table_->Claim(Key(1, 2), At(0)).kind, Kind::kFresh);
  ASSERT_EQ(table_->Claim(Key(1, 3), At(0)).kind, Kind::kFresh);
  EXPECT_EQ(RefusalOf(table_->Claim(Key(1, 4), At(0))), Reason::kQueueFull);
  EXPECT_EQ(table_->Claim(Key(1, 3), At(0)).kind, Kind::kJoined);  // a retry is no new entry
  table_->Release(SessionId(1), 3, At(0));
  EXPECT_EQ(table_->Claim(Key(1, 4), At(0)).kind, Kind::kFresh);
}

TEST_F(SessionWindowTest, TheWindowIsBoundedInBytes) {
  // Room for one claim in progress beside two outcomes of 100 bytes.
  Make({.window_bytes = 3 * kSessionEntryBytes + 200 + 1000, .outcome_reserve_bytes = 1000});
  Apply(2, std::string(100, 'x'));
  Apply(3, std::string(100, 'x'));
  EXPECT_EQ(table_->bytes_used(SessionId(1)), 2 * (kSessionEntryBytes + 100));
  Apply(4, std::string(100, 'x'));
  EXPECT_EQ(RefusalOf(table_->Claim(Key(1, 5), At(0))), Reason::kQueueFull);
  Apply(5, "", 3);
  EXPECT_EQ(table_->bytes_used(SessionId(1)), 3 * kSessionEntryBytes + 200);
}

TEST_F(SessionWindowTest, BytesCountTheReserveWhileInProgress) {
  Make({.window_bytes = 10'000, .outcome_reserve_bytes = 4000});
  ASSERT_EQ(table_->Claim(Key(1, 2), At(0)).kind, Kind::kFresh);
  EXPECT_EQ(table_->bytes_used(SessionId(1)), 4000 + kSessionEntryBytes);
  ASSERT_EQ(table_->Claim(Key(1, 3), At(0)).kind, Kind::kFresh);
  EXPECT_EQ(RefusalOf(table_->Claim(Key(1, 4), At(0))), Reason::kQueueFull);
  table_->SettleApplied(SessionId(1), 2, "abc", At(0));
  EXPECT_EQ(table_->bytes_used(SessionId(1)), 3 + 4000 + 2 * kSessionEntryBytes);
}

TEST_F(SessionWindowTest, AnOutcomeAboveItsReserveIsKeptAndBlocksNewClaims) {
  Make({.window_bytes = 1000, .outcome_reserve_bytes = 10});
  Apply(2, std::string(50'000, 'y'));
  EXPECT_EQ(table_->Claim(Key(1, 2), At(0)).reply.size(), 50'000u);
  EXPECT_EQ(RefusalOf(table_->Claim(Key(1, 3), At(0))), Reason::kQueueFull);
  EXPECT_EQ(table_->Claim(Key(1, 3, 3), At(0)).kind, Kind::kFresh);
}

TEST_F(SessionWindowTest, RefusalsCountTheirTextAndMetadata) {
  Make({});
  ASSERT_EQ(table_->Claim(Key(1, 1), At(0)).kind, Kind::kFresh);
  const absl::Status status = MakeError(Reason::kMalformed, "twelve chars", {{"key", "value"}});
  table_->SettleRefused(SessionId(1), 1, status, At(0));
  EXPECT_EQ(table_->bytes_used(SessionId(1)), kSessionEntryBytes + static_cast<int64_t>(status.message().size()) + 8);
}

}  // namespace
}  // namespace embps
