// Order and numbers of a client's mutations. One sequence counts for all nodes (gaps are legal); the lowest one whose
// outcome is open bounds the servers' windows.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <set>

#include "client/cpp/scheduler.h"
#include "proto/base/mutex.h"

namespace embps::client {

// Thread-safe; held by shared_ptr, since replays may outlive the client.
class MutationQueue : public std::enable_shared_from_this<MutationQueue> {
 public:
  explicit MutationQueue(int max_in_flight) : max_in_flight_(max_in_flight) {}

  // The next number, open until Settle.
  uint64_t Open();
  void Settle(uint64_t sequence);
  // The lowest open one; `otherwise` when none is.
  uint64_t FirstOpen(uint64_t otherwise) const;

  // Calls turn(true) when it may send: at once or from another's Leave, in the order of Enter; the turn lasts until its
  // Leave. Calls turn(false) instead if that has not come by the deadline.
  void Enter(Scheduler* scheduler, TimePoint deadline, std::function<void(bool in_time)> turn);
  void Leave();

 private:
  struct Waiter {
    uint64_t id = 0;
    std::function<void(bool)> turn;
  };
  void Expire(uint64_t id);

  const int max_in_flight_;
  mutable Mutex mu_;
  uint64_t last_sequence_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<uint64_t> open_ ABSL_GUARDED_BY(mu_);
  int in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_waiter_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Waiter> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace embps::client
