#include "server/session/session_store.h"

#include "absl/status/statusor.h"
#include "proto/base/check.h"

namespace embps {
namespace {

absl::Status AnswerAfterRelease(const absl::Status& reason) {
  if (absl::IsUnavailable(reason) || absl::IsResourceExhausted(reason)) return DetachedCopy(reason);
  return absl::UnavailableError(
      "the call that this duplicate waited for ended without an outcome; retry with the same sequence");
}

}  // namespace

SessionClaim& SessionClaim::operator=(SessionClaim&& other) noexcept {
  if (this == &other) return *this;
  if (held()) Release(absl::CancelledError("claim dropped"), claimed_at_);
  store_ = std::exchange(other.store_, nullptr);
  session_id_ = std::move(other.session_id_);
  sequence_ = other.sequence_;
  claimed_at_ = other.claimed_at_;
  return *this;
}

SessionClaim::~SessionClaim() {
  if (held()) Release(absl::CancelledError("claim dropped"), claimed_at_);
}

void SessionClaim::Applied(std::string reply, TimePoint now) {
  EMBPS_CHECK(held());
  SessionStore* store = std::exchange(store_, nullptr);
  SessionStore::Joiners joiners;
  {
    MutexLock lock(&store->mu_);
    joiners = store->TakeJoiners({session_id_, sequence_});
    store->table_.SettleApplied(session_id_, sequence_, joiners.empty() ? std::move(reply) : reply, now);
  }
  for (auto& joined : joiners) std::move(joined)(reply);
}

void SessionClaim::Refused(const absl::Status& status, TimePoint now) {
  EMBPS_CHECK(held());
  SessionStore* store = std::exchange(store_, nullptr);
  SessionStore::Joiners joiners;
  {
    MutexLock lock(&store->mu_);
    joiners = store->TakeJoiners({session_id_, sequence_});
    store->table_.SettleRefused(session_id_, sequence_, status, now);
  }
  for (auto& joined : joiners) std::move(joined)(DetachedCopy(status));
}

void SessionClaim::Release(const absl::Status& reason, TimePoint now) {
  EMBPS_CHECK(held());
  SessionStore* store = std::exchange(store_, nullptr);
  SessionStore::Joiners joiners;
  {
    MutexLock lock(&store->mu_);
    joiners = store->TakeJoiners({session_id_, sequence_});
    store->table_.Release(session_id_, sequence_, now);
  }
  for (auto& joined : joiners) std::move(joined)(AnswerAfterRelease(reason));
}

SessionStore::~SessionStore() {
  MutexLock lock(&mu_);
  EMBPS_CHECK(joiners_.empty());  // a claim that outlived its store
}

absl::Status SessionStore::Open(absl::string_view session_id, const SessionInfo& info, TimePoint now) {
  MutexLock lock(&mu_);
  return table_.Open(session_id, info, now);
}

absl::Status SessionStore::Close(absl::string_view session_id, TimePoint now) {
  MutexLock lock(&mu_);
  return table_.Close(session_id, now);
}

absl::Status SessionStore::Touch(absl::string_view session_id, TimePoint now) {
  MutexLock lock(&mu_);
  return table_.Touch(session_id, now);
}

ClaimResult SessionStore::Claim(const MutationKey& key, TimePoint now, SessionClaim* claim, JoinCallback joined) {
  EMBPS_CHECK(!claim->held());
  MutexLock lock(&mu_);
  ClaimResult result = table_.Claim(key, now);
  if (result.kind == ClaimResult::Kind::kFresh) {
    *claim = SessionClaim(this, key.session_id, key.sequence, now);
    return result;
  }
  if (result.kind == ClaimResult::Kind::kJoined) {
    joiners_[EntryKey(key.session_id, key.sequence)].push_back(std::move(joined));
  }
  if (result.kind != ClaimResult::Kind::kRefused || result.kept) ++duplicates_suppressed_;
  return result;
}

SessionStore::Joiners SessionStore::TakeJoiners(const EntryKey& key) {
  const auto found = joiners_.find(key);
  if (found == joiners_.end()) return {};
  Joiners joiners = std::move(found->second);
  joiners_.erase(found);
  return joiners;
}

int64_t SessionStore::open_count() const {
  MutexLock lock(&mu_);
  return table_.open_count();
}

uint64_t SessionStore::duplicates_suppressed() const {
  MutexLock lock(&mu_);
  return duplicates_suppressed_;
}

}  // namespace embps
