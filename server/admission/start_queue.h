// The line before the sequencer. Only so many calls hold a ticket at once; the others wait here, where a call whose
// deadline passed or whose client went away can still be dropped without having done anything.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "proto/base/mutex.h"
#include "server/admission/byte_budget.h"
#include "server/env/clock.h"

namespace embps {

class StartQueue {
 public:
  // A place among the running calls; given back when the last copy goes, on any thread. Null = the deadline passed
  // first.
  using Slot = std::shared_ptr<void>;
  using Start = absl::AnyInvocable<void(Slot) &&>;

  // Waiting calls are started through `post`. Slots and waiters must be gone before the queue is destroyed.
  StartQueue(int64_t max_running, int64_t max_waiting, const Clock& clock, PostFunction post);
  ~StartQueue();

  struct Entered {
    bool accepted = false;  // false: the line is full, `start` was destroyed uncalled
    uint64_t waiter = 0;    // 0: `start` was called before Enter returned
  };
  // Calls `start` once: at once when a place is free and `deadline` has not passed, else in order of arrival, then with
  // null if the deadline passed meanwhile. `deadline` is by `clock`.
  Entered Enter(Clock::TimePoint deadline, Start start);
  // The call gives up: `start` is destroyed uncalled. False when it does not wait any more.
  bool Leave(uint64_t waiter);

  // False if calls were still running at `deadline`, which is by the machine's clock.
  bool WaitIdle(std::chrono::steady_clock::time_point deadline);

  int64_t running_count() const;
  int64_t waiting_count() const;

 private:
  struct Waiter {
    uint64_t id;
    Clock::TimePoint deadline;
    Start start;
  };
  Slot MakeSlot();
  void Release();

  const int64_t max_running_;
  const int64_t max_waiting_;
  const Clock& clock_;
  const PostFunction post_;

  mutable Mutex mu_;
  CondVar idle_;
  int64_t running_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Waiter> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace embps
