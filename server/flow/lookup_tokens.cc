#include "server/flow/lookup_tokens.h"

#include <utility>

#include "proto/wire/request_checks.h"
#include "server/env/random_bytes.h"

namespace embps {

std::string LookupTokens::Keep(absl::string_view session_id, std::shared_ptr<const KeptLookup> lookup,
                               Clock::TimePoint now) {
  MutexLock lock(&mu_);
  DropExpired(now);
  if (lookup->bytes > max_bytes_) return "";
  while (bytes_ + lookup->bytes > max_bytes_) Erase(entries_.begin());
  bytes_ += lookup->bytes;
  std::string token = RandomBytes(static_cast<int>(wire::kLookupTokenBytes));
  entries_.push_back({token, std::string(session_id), std::move(lookup), now + ttl_});
  by_token_[token] = std::prev(entries_.end());
  return token;
}

std::shared_ptr<const KeptLookup> LookupTokens::Find(absl::string_view token, absl::string_view session_id,
                                                     Clock::TimePoint now) {
  MutexLock lock(&mu_);
  DropExpired(now);
  const auto found = by_token_.find(std::string(token));
  if (found == by_token_.end() || found->second->session_id != session_id) return nullptr;
  return found->second->lookup;
}

void LookupTokens::Drop(absl::string_view token) {
  MutexLock lock(&mu_);
  if (const auto found = by_token_.find(std::string(token)); found != by_token_.end()) Erase(found->second);
}

int64_t LookupTokens::bytes_kept() const {
  MutexLock lock(&mu_);
  return bytes_;
}

void LookupTokens::Erase(Entries::iterator entry) {
  bytes_ -= entry->lookup->bytes;
  by_token_.erase(entry->token);
  entries_.erase(entry);
}

void LookupTokens::DropExpired(Clock::TimePoint now) {
  while (!entries_.empty() && entries_.front().expires <= now) Erase(entries_.begin());
}

}  // namespace embps
