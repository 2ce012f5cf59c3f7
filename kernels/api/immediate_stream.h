// The stream of backends that compute on the calling thread: everything enqueued has run when the call returns.
#pragma once
#include <utility>

#include "kernels/api/stream.h"

namespace embps::kernels {

// Used by one thread at a time, like every stream.
class ImmediateStream final : public Stream {
 public:
  void Enqueue(absl::AnyInvocable<absl::Status() &&> work) override { first_error_.Update(std::move(work)()); }
  void OnComplete(absl::AnyInvocable<void(absl::Status) &&> done) override {
    std::move(done)(std::exchange(first_error_, absl::OkStatus()));
  }

 private:
  absl::Status first_error_;
};

}  // namespace embps::kernels
