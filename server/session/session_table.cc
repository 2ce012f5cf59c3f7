#include "server/session/session_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "proto/base/error.h"

namespace embps {
namespace {

absl::Status SessionEnded() {
  return MakeError(Reason::kSessionEnded,
                   "session_id names no open session (never opened here, closed, expired or evicted); open a new one");
}

absl::Status CheckKey(const MutationKey& key) {
  if (key.session_id.size() != kSessionIdBytes) {
    return MakeError(Reason::kMalformed,
                     absl::StrCat("mutation.session_id has ", key.session_id.size(), " bytes, must have 16"));
  }
  if (key.first_incomplete < 1 || key.first_incomplete > key.sequence) {
    return MakeError(Reason::kMalformed, absl::StrCat("mutation.first_incomplete is ", key.first_incomplete,
                                                      ", must be from 1 to sequence, which is ", key.sequence));
  }
  return absl::OkStatus();
}

ClaimResult NoClaim(absl::Status status) {
  ClaimResult result;
  result.status = std::move(status);
  return result;
}

}  // namespace

absl::Status DetachedCopy(const absl::Status& status) {
  absl::Status copy(status.code(), status.message());
  status.ForEachPayload([&copy](absl::string_view url, const absl::Cord& payload) {
    copy.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return copy;
}

absl::Status SessionOptions::Validate() const {
  std::vector<std::string> faults;
  if (window_entries < 1) faults.push_back(absl::StrCat("window_entries is ", window_entries, ", must be >= 1"));
  if (outcome_reserve_bytes < 0) {
    faults.push_back(absl::StrCat("outcome_reserve_bytes is ", outcome_reserve_bytes, ", must be >= 0"));
  }
  if (window_bytes < outcome_reserve_bytes) {
    faults.push_back(absl::StrCat("window_bytes is ", window_bytes, ", must be >= outcome_reserve_bytes, which is ",
                                  outcome_reserve_bytes));
  }
  if (max_sessions < 1) faults.push_back(absl::StrCat("max_sessions is ", max_sessions, ", must be >= 1"));
  if (idle_expiry.count() <= 0) faults.push_back("idle_expiry must be > 0");
  return faults.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
}

SessionTable::SessionTable(const SessionOptions& options) : options_(options) { EMBPS_CHECK(options_.Validate().ok()); }

absl::Status SessionTable::Open(absl::string_view session_id, const SessionInfo& info, TimePoint now) {
  EMBPS_CHECK(session_id.size() == kSessionIdBytes);
  EMBPS_CHECK(sessions_.find(session_id) == sessions_.end());
  ExpireIdle(now);
  if (open_count() >= options_.max_sessions && !EvictOne()) {
    return MakeError(
        Reason::kQueueFull,
        absl::StrCat("all ", options_.max_sessions, " sessions of this server have mutations in progress; try later"));
  }
  auto session = std::make_unique<Session>();
  session->info = info;
  session->last_use = latest_;
  session->place = idle_order_.emplace(idle_order_.end(), session_id);
  sessions_.emplace(session_id, std::move(session));
  return absl::OkStatus();
}

absl::Status SessionTable::Close(absl::string_view session_id, TimePoint now) {
  Session* session = FindOpen(session_id, now);
  if (session == nullptr) return SessionEnded();
  End(std::string(session_id), *session);
  return absl::OkStatus();
}

absl::Status SessionTable::Touch(absl::string_view session_id, TimePoint now) {
  Session* session = FindOpen(session_id, now);
  if (session == nullptr) return SessionEnded();
  Use(*session, now);
  return absl::OkStatus();
}

ClaimResult SessionTable::Claim(const MutationKey& key, TimePoint now) {
  if (absl::Status status = CheckKey(key); !status.ok()) return NoClaim(std::move(status));
  Session* session = FindOpen(key.session_id, now);
  if (session == nullptr) return NoClaim(SessionEnded());
  Use(*session, now);
  AdvanceTo(*session, key.first_incomplete);
  if (key.sequence < session->first_incomplete) {
    return NoClaim(MakeError(Reason::kSeqTooOld,
                             absl::StrCat("sequence ", key.sequence, " is below first_incomplete ",
                                          session->first_incomplete, ", whose outcomes the client said it knows")));
  }
  const auto entry = session->entries.find(key.sequence);
  return entry == session->entries.end() ? AddClaim(*session, key) : AnswerFrom(*session, entry->second, key);
}

ClaimResult SessionTable::AnswerFrom(const Session& session, const Entry& entry, const MutationKey& key) {
  if (entry.digest != key.digest) {
    return NoClaim(
        MakeError(Reason::kSeqReused, absl::StrCat("sequence ", key.sequence, " of client '", session.info.client_name,
                                                   "' was used before for a mutation with other contents")));
  }
  ClaimResult result;
  switch (entry.state) {
    case EntryState::kInProgress:
      result.kind = ClaimResult::Kind::kJoined;
      break;
    case EntryState::kApplied:
      result.kind = ClaimResult::Kind::kApplied;
      result.reply = entry.reply;
      break;
    case EntryState::kRefused:
      result.kind = ClaimResult::Kind::kRefused;
      result.status = DetachedCopy(entry.status);
      result.kept = true;
      break;
  }
  return result;
}

ClaimResult SessionTable::AddClaim(Session& session, const MutationKey& key) {
  const int64_t bytes = kSessionEntryBytes + options_.outcome_reserve_bytes;
  const bool fits = static_cast<int64_t>(session.entries.size()) < options_.window_entries &&
                    session.bytes + bytes <= options_.window_bytes;
  if (!fits && key.sequence != session.first_incomplete) {
    return NoClaim(MakeError(
        Reason::kQueueFull,
        absl::StrCat("the session's window is full: ", session.entries.size(), " of ", options_.window_entries,
                     " outcomes, ", session.bytes, " of ", options_.window_bytes,
                     " bytes since first_incomplete = ", session.first_incomplete, "; settle older sequences first")));
  }
  Entry entry;
  entry.digest = key.digest;
  entry.bytes = bytes;
  session.bytes += bytes;
  ++session.in_progress;
  session.entries.emplace(key.sequence, std::move(entry));
  ClaimResult result;
  result.kind = ClaimResult::Kind::kFresh;
  return result;
}

void SessionTable::SettleApplied(absl::string_view session_id, uint64_t sequence, std::string reply, TimePoint now) {
  Entry outcome;
  outcome.state = EntryState::kApplied;
  outcome.bytes = kSessionEntryBytes + static_cast<int64_t>(reply.size());
  outcome.reply = std::move(reply);
  Settle(session_id, sequence, std::move(outcome), now);
}

void SessionTable::SettleRefused(absl::string_view session_id, uint64_t sequence, const absl::Status& status,
                                 TimePoint now) {
  EMBPS_CHECK(!status.ok());
  Entry outcome;
  outcome.state = EntryState::kRefused;
  outcome.bytes = kSessionEntryBytes + static_cast<int64_t>(status.message().size());
  for (const auto& [key, value] : MetadataOf(status)) {
    outcome.bytes += static_cast<int64_t>(key.size() + value.size());
  }
  outcome.status = DetachedCopy(status);
  Settle(session_id, sequence, std::move(outcome), now);
}

void SessionTable::Settle(absl::string_view session_id, uint64_t sequence, Entry outcome, TimePoint now) {
  const auto found = sessions_.find(session_id);
  EMBPS_CHECK(found != sessions_.end());
  Session& session = *found->second;
  const auto entry = session.entries.find(sequence);
  EMBPS_CHECK(entry != session.entries.end() && entry->second.state == EntryState::kInProgress);
  if (session.closed || sequence < session.first_incomplete) {
    Drop(session, entry);  // nobody may ask for it any more
  } else {
    session.bytes += outcome.bytes - entry->second.bytes;
    outcome.digest = entry->second.digest;
    entry->second = std::move(outcome);
  }
  FinishOwner(std::string(session_id), session, now);
}

void SessionTable::Release(absl::string_view session_id, uint64_t sequence, TimePoint now) {
  const auto found = sessions_.find(session_id);
  EMBPS_CHECK(found != sessions_.end());
  Session& session = *found->second;
  const auto entry = session.entries.find(sequence);
  EMBPS_CHECK(entry != session.entries.end() && entry->second.state == EntryState::kInProgress);
  Drop(session, entry);
  FinishOwner(std::string(session_id), session, now);
}

void SessionTable::FinishOwner(const std::string& session_id, Session& session, TimePoint now) {
  --session.in_progress;
  if (!session.closed) {
    Use(session, now);
  } else if (session.in_progress == 0) {
    sessions_.erase(session_id);
  }
}

SessionTable::Session* SessionTable::FindOpen(absl::string_view session_id, TimePoint now) {
  ExpireIdle(now);
  const auto found = sessions_.find(session_id);
  return found == sessions_.end() || found->second->closed ? nullptr : found->second.get();
}

void SessionTable::Use(Session& session, TimePoint now) {
  latest_ = std::max(latest_, now);
  session.last_use = latest_;
  idle_order_.splice(idle_order_.end(), idle_order_, session.place);
}

// Keeps the session, unlisted, while claims in progress still point to it.
void SessionTable::End(const std::string& session_id, Session& session) {
  idle_order_.erase(session.place);
  session.closed = true;
  if (session.in_progress == 0) {
    sessions_.erase(session_id);
    return;
  }
  for (auto entry = session.entries.begin(); entry != session.entries.end();) {
    const auto here = entry++;
    if (here->second.state != EntryState::kInProgress) Drop(session, here);
  }
}

void SessionTable::ExpireIdle(TimePoint now) {
  latest_ = std::max(latest_, now);
  for (auto it = idle_order_.begin(); it != idle_order_.end();) {
    Session& session = *sessions_.find(*it)->second;
    if (latest_ - session.last_use < options_.idle_expiry) return;
    const std::string id = *it++;  // End destroys the listed one
    if (session.in_progress == 0) End(id, session);
  }
}

bool SessionTable::EvictOne() {
  for (const std::string& listed : idle_order_) {
    Session& session = *sessions_.find(listed)->second;
    if (session.in_progress > 0) continue;
    const std::string id = listed;  // End destroys the listed one
    End(id, session);
    return true;
  }
  return false;
}

void SessionTable::Drop(Session& session, std::map<uint64_t, Entry>::iterator entry) {
  session.bytes -= entry->second.bytes;
  session.entries.erase(entry);
}

void SessionTable::AdvanceTo(Session& session, uint64_t first_incomplete) {
  if (first_incomplete <= session.first_incomplete) return;
  session.first_incomplete = first_incomplete;
  for (auto entry = session.entries.begin(); entry != session.entries.end() && entry->first < first_incomplete;) {
    const auto here = entry++;
    if (here->second.state != EntryState::kInProgress) Drop(session, here);
  }
}

int64_t SessionTable::entry_count(absl::string_view session_id) const {
  const auto found = sessions_.find(session_id);
  return found == sessions_.end() ? 0 : static_cast<int64_t>(found->second->entries.size());
}

int64_t SessionTable::bytes_used(absl::string_view session_id) const {
  const auto found = sessions_.find(session_id);
  return found == sessions_.end() ? 0 : found->second->bytes;
}

}  // namespace embps
