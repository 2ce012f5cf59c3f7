// The part that all reactors share: who may finish a call, when to touch gRPC and when not, and how long a call lives.
//
// At most one read or write is in flight. Close() may come from any thread: it finishes at once when nothing is in
// flight, else the operation's own completion does (after a cancel it fails quickly). gRPC's reference keeps the call
// until OnDone; a flow's callbacks keep it longer, and find it closed.
#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "proto/base/error.h"
#include "proto/base/mutex.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/rpc_core.h"

namespace embps {

enum class WhileDraining {
  kRefuse,
  kServe,
  kUncounted,  // served, and the drain does not wait for it
};

template <class Reactor, class Derived>
class CallBase : public Reactor, public std::enable_shared_from_this<Derived>, public Stallable {
 public:
  CallBase(RpcCore& core, CallCounters& counters, grpc::CallbackServerContext* context)
      : core_(core), counters_(counters), context_(context), began_(core.clock->Now()) {}

  // Right after make_shared: makes gRPC an owner. False when the server drains and the method is not served then: the
  // call is answered already.
  bool Enlist(WhileDraining while_draining) {
    self_ = this->shared_from_this();
    core_.stall_watch->Add(this);
    if (while_draining == WhileDraining::kUncounted) return true;
    entered_ = core_.calls->Enter(while_draining == WhileDraining::kServe);
    if (!entered_) Close(MakeError(Reason::kDraining, "this server is draining: use another one or retry later"));
    return entered_;
  }

  void OnDone() override {
    core_.stall_watch->Remove(this);
    if (entered_) core_.calls->Leave();
    self_.reset();  // may delete this
  }

  // From the watch, whose lock keeps the call from OnDone: the context is alive.
  void CutIfStalled(Clock::TimePoint oldest) override {
    MutexLock lock(&mu_);
    if ((in_flight_ || closing_) && progress_ < oldest) context_->TryCancel();
  }

 protected:
  RpcCore& core() const { return core_; }
  grpc::CallbackServerContext* context() const { return context_; }

  // The client's deadline by core().clock; TimePoint::max() if there is none.
  Clock::TimePoint deadline() const {
    const auto deadline = context_->deadline();
    if (deadline == std::chrono::system_clock::time_point::max()) return Clock::TimePoint::max();
    const auto left = deadline - std::chrono::system_clock::now();
    if (left > std::chrono::hours(24 * 365)) return Clock::TimePoint::max();
    return core_.clock->Now() + std::chrono::duration_cast<Clock::Duration>(left);
  }

  // Marks an operation as in flight; false when the call is closed: then start nothing.
  bool BeginOperation() {
    MutexLock lock(&mu_);
    if (closing_ || in_flight_) return false;
    in_flight_ = true;
    progress_ = core_.clock->Now();
    return true;
  }

  // First thing in OnReadDone and OnWriteDone; false when the call was closed meanwhile (it is finished then).
  bool EndOperation() {
    {
      MutexLock lock(&mu_);
      in_flight_ = false;
      progress_ = core_.clock->Now();
      if (!closing_) return true;
    }
    this->Finish(final_status_);
    return false;
  }

  // Ends the call with an error. The first one wins.
  void Close(const absl::Status& error, CallOutcome outcome = CallOutcome::kFailed) {
    {
      MutexLock lock(&mu_);
      if (closing_) return;
      closing_ = true;
      progress_ = core_.clock->Now();
      final_status_ = ToGrpc(error);
      if (in_flight_) return Record(outcome);
    }
    Record(outcome);
    this->Finish(final_status_);
  }

  // Claims the right to finish with a reply; only with nothing in flight. The caller then calls Finish or
  // StartWriteAndFinish.
  bool ClaimFinish() {
    {
      MutexLock lock(&mu_);
      if (closing_ || in_flight_) return false;
      closing_ = true;
      progress_ = core_.clock->Now();
    }
    Record(CallOutcome::kOk);
    return true;
  }

 private:
  void Record(CallOutcome outcome) { counters_.Record(outcome, core_.clock->Now() - began_); }

  RpcCore& core_;
  CallCounters& counters_;
  grpc::CallbackServerContext* const context_;
  const Clock::TimePoint began_;
  bool entered_ = false;           // set before gRPC knows the call
  std::shared_ptr<Derived> self_;  // gRPC's reference

  Mutex mu_;
  bool in_flight_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  Clock::TimePoint progress_ ABSL_GUARDED_BY(mu_);
  grpc::Status final_status_;  // written once, under mu_, with closing_
};

}  // namespace embps
