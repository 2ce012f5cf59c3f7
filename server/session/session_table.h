// Exactly once: which mutations of which session are in progress, applied or refused. A pure state machine: no clock,
// no thread, no lock. `now` is an argument; one earlier than the latest seen counts as that. SessionStore is the locked
// form that the server uses.
//
// Life of one (session, sequence):
//   absent --Claim: kFresh--> in progress --SettleApplied--> applied: the reply is kept
//                                         --SettleRefused--> refused: the status is kept
//                                         --Release--------> absent
// A Claim of an entry that is there answers kJoined, kApplied or kRefused, or SEQ_REUSED when the digest differs.
// Claim's first_incomplete says that the client knows every outcome below it: entries below are dropped (one in
// progress goes when it settles) and sequences below are SEQ_TOO_OLD from then on. It never moves back: lower values
// are ignored. Gaps between sequences are legal.
//
// Bounds. A kept outcome is never dropped to make room; a claim that does not fit is RESOURCE_EXHAUSTED QUEUE_FULL
// until first_incomplete moves. The one exception is the sequence first_incomplete itself, which always gets its place
// (one entry above the bound), because the client cannot move on without it.
#pragma once
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace embps {

inline constexpr size_t kSessionIdBytes = 16;

struct SessionOptions {
  // Entries at or above first_incomplete that one session may have, >= 1. More lets a client have more mutations in
  // flight or undecided.
  int64_t window_entries = 1024;
  // Bytes of those entries, >= outcome_reserve_bytes: kept replies and statuses plus kSessionEntryBytes each.
  int64_t window_bytes = 1 << 20;
  // Set aside for the outcome of a claim in progress, >= 0. An outcome above it is kept nevertheless and may take the
  // session above window_bytes until first_incomplete moves.
  int64_t outcome_reserve_bytes = 4096;
  // Sessions open at once, >= 1. One more evicts the longest idle one that has nothing in progress.
  int64_t max_sessions = 1024;
  // A session unused for so long ends, unless something is in progress. > 0.
  std::chrono::steady_clock::duration idle_expiry = std::chrono::hours(1);

  absl::Status Validate() const;
};

// What an entry costs beside its outcome: the bookkeeping, rounded up.
inline constexpr int64_t kSessionEntryBytes = 256;

// A copy that shares nothing with `status`, to hand to another thread: plain copies share a reference count in a
// library that sanitizers do not see into.
absl::Status DetachedCopy(const absl::Status& status);

// For messages; two processes that share one session by mistake are found by it.
struct SessionInfo {
  std::string namespace_name;
  std::string client_name;
};

// Names one mutation, as the client sent it.
struct MutationKey {
  std::string session_id;         // 16 bytes
  uint64_t sequence = 0;          // from 1
  uint64_t first_incomplete = 0;  // 1 <= first_incomplete <= sequence
  uint64_t digest = 0;
};

struct ClaimResult {
  enum class Kind {
    kFresh,    // the caller owns the claim: it must settle or release it, exactly once
    kJoined,   // another call is working on it; its outcome is this one's too
    kApplied,  // `reply` is the kept reply
    kRefused,  // `status` is the kept refusal, or why there is no claim: see `kept`
  };
  Kind kind = Kind::kRefused;
  std::string reply;
  absl::Status status;
  // kRefused only. True: the outcome of an earlier call, a suppressed duplicate. False: MALFORMED, SESSION_ENDED,
  // SEQ_TOO_OLD, SEQ_REUSED or QUEUE_FULL about this call; nothing was claimed.
  bool kept = false;
};

class SessionTable {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit SessionTable(const SessionOptions& options);  // must be valid

  // `session_id`: 16 random bytes that were never used before. RESOURCE_EXHAUSTED QUEUE_FULL when max_sessions are open
  // and each has something in progress.
  absl::Status Open(absl::string_view session_id, const SessionInfo& info, TimePoint now);

  // SESSION_ENDED when there is no such session. What is in progress runs out; its outcome is not kept.
  absl::Status Close(absl::string_view session_id, TimePoint now);

  // OK and counts as use, or SESSION_ENDED. For calls that need a session but are no mutation.
  absl::Status Touch(absl::string_view session_id, TimePoint now);

  ClaimResult Claim(const MutationKey& key, TimePoint now);

  // By the owner of a fresh claim. The session may have been closed meanwhile; then the outcome goes nowhere.
  void SettleApplied(absl::string_view session_id, uint64_t sequence, std::string reply, TimePoint now);
  void SettleRefused(absl::string_view session_id, uint64_t sequence, const absl::Status& status, TimePoint now);
  void Release(absl::string_view session_id, uint64_t sequence, TimePoint now);

  // Sessions that calls may use; closed ones that still run something out are not counted.
  int64_t open_count() const { return static_cast<int64_t>(idle_order_.size()); }
  // Of one session; 0 when it is not there. bytes counts the reserve of claims in progress.
  int64_t entry_count(absl::string_view session_id) const;
  int64_t bytes_used(absl::string_view session_id) const;
  const SessionOptions& options() const { return options_; }

 private:
  enum class EntryState { kInProgress, kApplied, kRefused };
  struct Entry {
    EntryState state = EntryState::kInProgress;
    uint64_t digest = 0;
    int64_t bytes = 0;
    std::string reply;
    absl::Status status;
  };
  struct Session {
    SessionInfo info;
    std::map<uint64_t, Entry> entries;  // by sequence; below first_incomplete only what is in progress
    uint64_t first_incomplete = 1;
    int64_t bytes = 0;
    int64_t in_progress = 0;
    bool closed = false;
    TimePoint last_use;
    std::list<std::string>::iterator place;  // in idle_order_ unless closed
  };

  Session* FindOpen(absl::string_view session_id, TimePoint now);
  void Use(Session& session, TimePoint now);
  void End(const std::string& session_id, Session& session);
  void ExpireIdle(TimePoint now);
  bool EvictOne();
  static void Drop(Session& session, std::map<uint64_t, Entry>::iterator entry);
  void AdvanceTo(Session& session, uint64_t first_incomplete);
  static ClaimResult AnswerFrom(const Session& session, const Entry& entry, const MutationKey& key);
  ClaimResult AddClaim(Session& session, const MutationKey& key);
  void Settle(absl::string_view session_id, uint64_t sequence, Entry outcome, TimePoint now);
  void FinishOwner(const std::string& session_id, Session& session, TimePoint now);

  const SessionOptions options_;
  absl::flat_hash_map<std::string, std::unique_ptr<Session>> sessions_;
  std::list<std::string> idle_order_;  // ids of open sessions, longest idle first
  TimePoint latest_;                   // the latest `now` seen
};

}  // namespace embps
