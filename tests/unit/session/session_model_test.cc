// Random operations on a SessionTable against a model that keeps everything and computes each answer from scratch.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "server/session/session_table.h"
#include "tests/unit/session/session_fixture.h"

namespace embps {
namespace {

using testing::At;
using testing::Key;
using testing::Kind;
using testing::RefusalOf;
using testing::SessionId;

constexpr SessionOptions kOptions = {.window_entries = 5,
                                     .window_bytes = 4 * kSessionEntryBytes + 300,
                                     .outcome_reserve_bytes = 100,
                                     .max_sessions = 4,
                                     .idle_expiry = std::chrono::seconds(40)};

struct ModelEntry {
  char state = 'p';  // in Progress, Applied, Refused
  uint64_t digest = 0;
  std::string outcome;
};

struct ModelSession {
  bool ended = false;
  int64_t last_use = 0;
  uint64_t first_incomplete = 1;
  std::map<uint64_t, ModelEntry> entries;  // everything that was ever claimed and not released

  bool pinned() const {
    return std::any_of(entries.begin(), entries.end(), [](const auto& e) { return e.second.state == 'p'; });
  }
  std::vector<const ModelEntry*> Window() const {
    std::vector<const ModelEntry*> kept;
    for (const auto& [sequence, entry] : entries) {
      if (entry.state == 'p' || (sequence >= first_incomplete && !ended)) kept.push_back(&entry);
    }
    return kept;
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const ModelEntry* entry : Window()) {
      const auto size = static_cast<int64_t>(entry->outcome.size());
      sum += kSessionEntryBytes + (entry->state == 'p' ? kOptions.outcome_reserve_bytes : size);
    }
    return sum;
  }
};

struct Answer {
  Kind kind = Kind::kRefused;
  std::string outcome;
  Reason reason = Reason::kNone;
  bool kept = false;
  bool operator==(const Answer&) const = default;
};
void PrintTo(const Answer& answer, std::ostream* out) {
  *out << static_cast<int>(answer.kind) << " '" << answer.outcome << "' " << ReasonName(answer.reason).data();
}

class Model {
 public:
  bool Open(int id, int64_t now) {
    Expire(now);
    if (OpenCount() >= kOptions.max_sessions) {
      ModelSession* victim = nullptr;
      for (auto& [other, session] : sessions_) {
        if (session.ended || session.pinned()) continue;
        if (victim == nullptr || session.last_use < victim->last_use) victim = &session;
      }
      if (victim == nullptr) return false;
      victim->ended = true;
    }
    sessions_[id].last_use = now;
    return true;
  }
  bool Close(int id, int64_t now) {
    Expire(now);
    if (!Alive(id)) return false;
    sessions_[id].ended = true;
    return true;
  }
  Answer Claim(int id, uint64_t sequence, uint64_t first_incomplete, uint64_t digest, int64_t now) {
    Expire(now);
    if (!Alive(id)) return Refusal(Reason::kSessionEnded);
    ModelSession& session = sessions_[id];
    session.last_use = now;
    session.first_incomplete = std::max(session.first_incomplete, first_incomplete);
    if (sequence < session.first_incomplete) return Refusal(Reason::kSeqTooOld);
    const auto found = session.entries.find(sequence);
    if (found != session.entries.end()) {
      const ModelEntry& entry = found->second;
      if (entry.digest != digest) return Refusal(Reason::kSeqReused);
      if (entry.state == 'p') return {Kind::kJoined, "", Reason::kNone, false};
      if (entry.state == 'a') return {Kind::kApplied, entry.outcome, Reason::kNone, false};
      return {Kind::kRefused, entry.outcome, Reason::kDimMismatch, true};
    }
    const bool fits = static_cast<int64_t>(session.Window().size()) < kOptions.window_entries &&
                      session.bytes() + kSessionEntryBytes + kOptions.outcome_reserve_bytes <= kOptions.window_bytes;
    if (!fits && sequence != session.first_incomplete) return Refusal(Reason::kQueueFull);
    session.entries[sequence] = {'p', digest, ""};
    return {Kind::kFresh, "", Reason::kNone, false};
  }
  void Settle(int id, uint64_t sequence, char state, const std::string& outcome, int64_t now) {
    ModelSession& session = sessions_[id];
    if (!session.ended) session.last_use = now;
    if (state == 'f') {
      session.entries.erase(sequence);
    } else {
      session.entries[sequence].state = state;
      session.entries[sequence].outcome = outcome;
    }
  }
  const ModelSession* Find(int id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : &found->second;
  }
  int64_t OpenCount() const {
    return std::count_if(sessions_.begin(), sessions_.end(), [](const auto& s) { return !s.second.ended; });
  }

 private:
  static Answer Refusal(Reason reason) { return {Kind::kRefused, "", reason, false}; }
  bool Alive(int id) const { return Find(id) != nullptr && !Find(id)->ended; }
  void Expire(int64_t now) {
    for (auto& [id, session] : sessions_) {
      if (now - session.last_use >= kOptions.idle_expiry / std::chrono::seconds(1) && !session.pinned()) {
        session.ended = true;
      }
    }
  }

  std::map<int, ModelSession> sessions_;
};

// Drives table and model through the same random life.
class Walk {
 public:
  explicit Walk(uint32_t seed) : random_(seed) {}

  void Step() {
    now_ += 1 + (Draw(20) == 0 ? Draw(60) : 0);  // strictly later, so that idle order has no ties
    const int what = Draw(100);
    if (what < 8) {
      OpenOne();
    } else if (what < 10) {
      const int id = AnyId();
      EXPECT_EQ(table_.Close(SessionId(id), At(now_)).ok(), model_.Close(id, now_));
    } else if (what < 60 || pending_.empty()) {
      ClaimOne();
    } else {
      SettleOne();
    }
    Compare();
  }
  const std::map<Reason, int>& seen_reasons() const { return seen_reasons_; }
  const std::map<Kind, int>& seen_kinds() const { return seen_kinds_; }

 private:
  int Draw(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }
  int AnyId() { return next_id_ == 0 ? 0 : std::max(0, next_id_ - 1 - Draw(6)); }

  void OpenOne() {
    const int id = next_id_++;
    EXPECT_EQ(table_.Open(SessionId(id), {}, At(now_)).ok(), model_.Open(id, now_));
  }
  void ClaimOne() {
    const int id = AnyId();
    const ModelSession* session = model_.Find(id);
    const uint64_t base = session == nullptr ? 1 : session->first_incomplete;
    const uint64_t sequence = std::max<int64_t>(1, static_cast<int64_t>(base) + Draw(9) - 1);
    const uint64_t wish = std::max<int64_t>(1, static_cast<int64_t>(base) + (Draw(4) == 0 ? Draw(4) : 0) - Draw(2));
    const uint64_t first_incomplete = std::min(sequence, wish);
    const uint64_t digest = Draw(8) == 0 ? 2 : 1;
    const ClaimResult result = table_.Claim(Key(id, sequence, first_incomplete, digest), At(now_));
    Answer got{result.kind, result.reply, RefusalOf(result), result.kept};
    if (result.kept) got.outcome = std::string(result.status.message());
    EXPECT_EQ(got, model_.Claim(id, sequence, first_incomplete, digest, now_));
    ++seen_kinds_[result.kind];
    ++seen_reasons_[got.reason];
    if (result.kind == Kind::kFresh) pending_.push_back({id, sequence});
  }
  void SettleOne() {
    const auto at = pending_.begin() + Draw(static_cast<int>(pending_.size()));
    const auto [id, sequence] = *at;
    pending_.erase(at);
    const char state = "aarf"[Draw(4)];
    const std::string outcome(static_cast<size_t>(1 + Draw(150)), 'o');
    if (state == 'a') table_.SettleApplied(SessionId(id), sequence, outcome, At(now_));
    if (state == 'r') table_.SettleRefused(SessionId(id), sequence, MakeError(Reason::kDimMismatch, outcome), At(now_));
    if (state == 'f') table_.Release(SessionId(id), sequence, At(now_));
    model_.Settle(id, sequence, state, outcome, now_);
  }
  void Compare() {
    EXPECT_EQ(table_.open_count(), model_.OpenCount());
    for (int id = std::max(0, next_id_ - 12); id < next_id_; ++id) {
      const ModelSession* session = model_.Find(id);
      const int64_t entries = session == nullptr ? 0 : static_cast<int64_t>(session->Window().size());
      EXPECT_EQ(table_.entry_count(SessionId(id)), entries) << id;
      EXPECT_EQ(table_.bytes_used(SessionId(id)), session == nullptr ? 0 : session->bytes()) << id;
    }
  }

  std::mt19937 random_;
  SessionTable table_{kOptions};
  Model model_;
  int64_t now_ = 0;
  int next_id_ = 0;
  std::vector<std::pair<int, uint64_t>> pending_;
  std::map<Reason, int> seen_reasons_;
  std::map<Kind, int> seen_kinds_;
};

TEST(SessionModelTest, RandomLivesGetTheAnswersOfANaiveModel) {
  std::map<Reason, int> reasons;
  std::map<Kind, int> kinds;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Walk walk(seed);
    for (int step = 0; step < 500 && !::testing::Test::HasFailure(); ++step) walk.Step();
    for (const auto& [reason, count] : walk.seen_reasons()) reasons[reason] += count;
    for (const auto& [kind, count] : walk.seen_kinds()) kinds[kind] += count;
  }
  for (const Kind kind : {Kind::kFresh, Kind::kJoined, Kind::kApplied, Kind::kRefused}) EXPECT_GT(kinds[kind], 20);
  for (const Reason reason :
       {Reason::kSessionEnded, Reason::kSeqTooOld, Reason::kSeqReused, Reason::kQueueFull, Reason::kDimMismatch}) {
    EXPECT_GT(reasons[reason], 20) << ReasonName(reason).data();
  }
}

}  // namespace
}  // namespace embps
