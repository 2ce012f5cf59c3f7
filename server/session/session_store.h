// SessionTable behind a lock, with the callbacks of joined duplicates.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "server/session/session_table.h"

namespace embps {

class SessionStore;

// The right and the duty to settle one mutation. Exactly one of Applied, Refused and Release ends it; the destructor
// releases what was not ended. Movable; the store must outlive it.
class SessionClaim {
 public:
  using TimePoint = SessionTable::TimePoint;

  SessionClaim() = default;  // no claim
  SessionClaim(SessionClaim&& other) noexcept { *this = std::move(other); }
  SessionClaim& operator=(SessionClaim&& other) noexcept;
  ~SessionClaim();

  bool held() const { return store_ != nullptr; }
  // Keeps the outcome for retries and answers the joined duplicates with it, on this thread, before it returns.
  void Applied(std::string reply, TimePoint now);
  void Refused(const absl::Status& status, TimePoint now);
  // Forgets the mutation, so that a retry starts afresh. Every joined duplicate gets `reason` if that is UNAVAILABLE or
  // RESOURCE_EXHAUSTED, else a bare UNAVAILABLE: their requests were let go when they joined, so their client sends the
  // same sequence again, and the first retry to come becomes the new owner.
  void Release(const absl::Status& reason, TimePoint now);

 private:
  friend class SessionStore;
  SessionClaim(SessionStore* store, std::string session_id, uint64_t sequence, TimePoint claimed_at)
      : store_(store), session_id_(std::move(session_id)), sequence_(sequence), claimed_at_(claimed_at) {}

  SessionStore* store_ = nullptr;
  std::string session_id_;
  uint64_t sequence_ = 0;
  TimePoint claimed_at_;
};

// Thread-safe.
class SessionStore {
 public:
  using TimePoint = SessionTable::TimePoint;
  // The reply of the call that was joined, or its refusal.
  using JoinCallback = absl::AnyInvocable<void(absl::StatusOr<std::string>) &&>;

  explicit SessionStore(const SessionOptions& options) : table_(options) {}
  ~SessionStore();

  absl::Status Open(absl::string_view session_id, const SessionInfo& info, TimePoint now);
  absl::Status Close(absl::string_view session_id, TimePoint now);
  absl::Status Touch(absl::string_view session_id, TimePoint now);

  // kFresh: *claim is held. kJoined: `joined` is kept and called once, by the owner's thread and outside the lock
  // (maybe before this returns). Else `joined` is dropped uncalled. *claim must not be held before.
  ClaimResult Claim(const MutationKey& key, TimePoint now, SessionClaim* claim, JoinCallback joined);

  int64_t open_count() const;
  // Claims answered kJoined, kApplied or from a kept refusal.
  uint64_t duplicates_suppressed() const;

 private:
  friend class SessionClaim;
  using EntryKey = std::pair<std::string, uint64_t>;  // session id, sequence
  using Joiners = std::vector<JoinCallback>;
  Joiners TakeJoiners(const EntryKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  SessionTable table_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<EntryKey, Joiners> joiners_ ABSL_GUARDED_BY(mu_);
  uint64_t duplicates_suppressed_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace embps
