// A queue of operations that run in order. Each lane of the sequencer has one; operations of different streams are not
// ordered among each other.
//
// Errors: the first one of a stream is kept and reported by the next OnComplete, which clears it. Operations after a
// failed one still run on whatever their inputs hold (memory-safe, values meaningless), so that every rank meets every
// collective. An operation must therefore be safe for any *contents* of its buffers that host-side validation let pass.
#pragma once
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace embps::kernels {

class Stream {
 public:
  virtual ~Stream() = default;
  // Runs `work` on the host once everything enqueued before it has run; operations enqueued later wait for it.
  virtual void Enqueue(absl::AnyInvocable<absl::Status() &&> work) = 0;
  // Calls `done` once everything enqueued before has run, with the first error since the last OnComplete.
  // `done` may run on the calling thread, before this returns. It must not block and must not use this stream.
  virtual void OnComplete(absl::AnyInvocable<void(absl::Status) &&> done) = 0;
};

}  // namespace embps::kernels
