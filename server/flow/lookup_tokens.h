// Batches that lookups leave behind for the push of the same batch, under random 16-byte tokens. Bounded in bytes and
// in time: the oldest goes first, and a token that is gone makes the client send its ids again.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/api/backend.h"
#include "proto/base/mutex.h"
#include "proto/wire/batch_layout.h"
#include "server/env/clock.h"
#include "server/input/local_ids.h"

namespace embps {

struct KeptLookup {
  std::shared_ptr<const wire::DecodedBatch> batch;
  // Of a node with one rank: the ids by shard row and, unless empty, a GradSort plan per table, complete once the
  // stream that ran the lookup gets to whatever was enqueued after it.
  LocalIds local_ids;
  std::vector<kernels::Buffer> sorted;  // [T]
  int64_t bytes = 0;
};

// Thread-safe.
class LookupTokens {
 public:
  // max_bytes = 0 keeps nothing.
  LookupTokens(int64_t max_bytes, Clock::Duration ttl) : max_bytes_(max_bytes), ttl_(ttl) {}

  // The token, or "" when the batch alone exceeds the bound.
  std::string Keep(absl::string_view session_id, std::shared_ptr<const KeptLookup> lookup, Clock::TimePoint now);
  // Null when it is gone, or was never this session's.
  std::shared_ptr<const KeptLookup> Find(absl::string_view token, absl::string_view session_id, Clock::TimePoint now);
  // The push that used it has taken its ticket.
  void Drop(absl::string_view token);

  int64_t bytes_kept() const;

 private:
  struct Entry {
    std::string token;
    std::string session_id;
    std::shared_ptr<const KeptLookup> lookup;
    Clock::TimePoint expires;
  };
  using Entries = std::list<Entry>;
  void Erase(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropExpired(Clock::TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t max_bytes_;
  const Clock::Duration ttl_;
  mutable Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);  // oldest first
  std::unordered_map<std::string, Entries::iterator> by_token_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace embps
