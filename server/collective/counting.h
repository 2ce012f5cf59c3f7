// A decorator that counts what a rank hands to its peers, for statistics and for tests of who sends what to whom.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "server/collective/collective.h"

namespace embps {

enum class CollectiveOperation { kAllToAll, kReduceScatter, kAllGather };
inline constexpr int kCollectiveOperationCount = 3;

// What one rank sent to one peer (itself included) by one kind of operation.
struct SentCounts {
  uint64_t calls = 0;      // that had anything for this peer, empty transfers included
  uint64_t transfers = 0;  // sends; one per call and peer for ReduceScatter and AllGather
  uint64_t bytes = 0;
  uint64_t elements = 0;  // fp32 values of a ReduceScatter; the other operations know bytes only

  bool operator==(const SentCounts&) const = default;
};

// One call as its rank made it.
struct CollectiveCall {
  int rank = 0;
  uint64_t index = 0;  // of this rank's calls, from 0
  CollectiveOperation operation = CollectiveOperation::kAllToAll;
  std::vector<SentCounts> sent;  // [W], by peer
};

// Totals of all ranks that share the object. Written by their lanes, read by anyone.
class CollectiveCounters {
 public:
  explicit CollectiveCounters(int world_size);

  int world_size() const { return world_size_; }
  SentCounts sent(CollectiveOperation operation, int rank, int peer) const;
  // Over all operations and ranks. `between_ranks` leaves out what ranks sent to themselves.
  uint64_t total_bytes(bool between_ranks = true) const;

  void Add(const CollectiveCall& call);

 private:
  struct Cell {
    std::atomic<uint64_t> calls{0}, transfers{0}, bytes{0}, elements{0};
  };
  Cell& cell(CollectiveOperation operation, int rank, int peer);
  const Cell& cell(CollectiveOperation operation, int rank, int peer) const;

  const int world_size_;
  std::vector<Cell> cells_;  // [operation][rank][peer]
};

// Counts at the call, before the stream runs it. `counters` must outlive the result; `observer`, if set, sees each call
// on the calling thread.
std::unique_ptr<Collective> NewCountingCollective(std::unique_ptr<Collective> inner, CollectiveCounters* counters,
                                                  std::function<void(const CollectiveCall&)> observer = nullptr);

}  // namespace embps
