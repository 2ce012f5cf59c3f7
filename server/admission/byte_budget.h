// Admission by bytes: what all calls in flight may hold together: requests, their declared rest, and replies until gRPC
// releases their slices. Unary calls are refused when there is no room; streams wait in line, and while they wait they
// do not read, so that flow control holds their client back.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "proto/base/mutex.h"

namespace embps {

// Hands a closure to another thread. Must accept closures from any thread without blocking.
using PostFunction = std::function<void(absl::AnyInvocable<void() &&>)>;

class ByteBudget {
 public:
  // Returns the bytes when the last copy goes; that may be on any thread, inside gRPC too. Null = not admitted.
  using Grant = std::shared_ptr<void>;
  using Ready = absl::AnyInvocable<void(Grant) &&>;

  // Waiting calls are woken through `post`, never by the thread that returns bytes. Grants and waiters must be gone
  // before the budget is destroyed.
  ByteBudget(int64_t limit_bytes, int64_t max_waiting, PostFunction post);
  ~ByteBudget();

  // Null when there is no room now, or when somebody waits already. bytes >= 0.
  Grant TryAcquire(int64_t bytes);

  // Calls `ready` once: with a grant, at once or later in order of arrival; with null, at once, when `bytes` can never
  // fit or the line is full. Returns 0 when `ready` was called at once, else the number with which the waiter can
  // Leave.
  uint64_t AcquireOrWait(int64_t bytes, Ready ready);
  // A waiter gives up: its `ready` is destroyed uncalled. False when it does not wait any more: then `ready` was or
  // will be called.
  bool Leave(uint64_t waiter);

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t used_bytes() const;
  int64_t peak_bytes() const;
  // Calls that were not admitted.
  uint64_t refused_count() const;

 private:
  struct Waiter {
    uint64_t id;
    int64_t bytes;
    Ready ready;
  };
  Grant MakeGrant(int64_t bytes);
  void Release(int64_t bytes);
  void Take(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeFitting(std::deque<Waiter>& woken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PostWoken(std::deque<Waiter> woken);

  const int64_t limit_bytes_;
  const int64_t max_waiting_;
  const PostFunction post_;

  mutable Mutex mu_;
  int64_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t peak_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Waiter> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace embps
