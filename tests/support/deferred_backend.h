// A Backend decorator that behaves like the most patient device there is: it queues every operation, runs nothing
// before OnComplete, and shows who reads a result too early.
//
// - Task arrays, and the pointer arrays inside them, are copied at the call, as backend.h promises callers.
// - Outputs are poisoned at the call: floats become NaN, integers huge. Scratch memory is poisoned when it is allocated
//   and again when it is freed. Buffers updated in place (tables, gradients, counts) cannot be. So a buffer that an
//   earlier operation still reads must not be the output of a later one before OnComplete.
// - OnComplete hands the queue, in order, to the inner backend's stream, then calls `done`.
#pragma once
#include <memory>

#include "kernels/api/backend.h"

namespace embps::testing {

struct DeferredOptions {
  // Where OnComplete runs the queue. kOwnThread: on a thread of the stream, so that OnComplete returns at once.
  // kCaller: on the caller, before OnComplete returns; a stream whose queue waits in a collective then needs the other
  // ranks' streams completed from other threads.
  enum class RunOn { kOwnThread, kCaller };
  RunOn run_on = RunOn::kOwnThread;
};

// Operations that were queued and never followed by OnComplete are dropped with the stream.
std::unique_ptr<kernels::Backend> NewDeferredBackend(std::unique_ptr<kernels::Backend> inner,
                                                     const DeferredOptions& options = {});

}  // namespace embps::testing
