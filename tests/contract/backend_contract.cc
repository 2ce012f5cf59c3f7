#include "tests/contract/backend_contract.h"

#include <utility>

#include "proto/base/mutex.h"

namespace embps::testing {

absl::Status WaitFor(kernels::Stream& stream) {
  Mutex mu;
  CondVar completed;
  bool done = false;
  absl::Status status;
  stream.OnComplete([&](absl::Status result) {
    MutexLock lock(&mu);
    status = std::move(result);
    done = true;
    completed.NotifyAll();
  });
  MutexLock lock(&mu);
  while (!done) completed.Wait(&mu);
  return status;
}

absl::Status RunAndWait(kernels::Backend& backend,
                        const std::function<void(kernels::Backend& backend, kernels::Stream& stream)>& enqueue) {
  const std::unique_ptr<kernels::Stream> stream = backend.NewStream();
  enqueue(backend, *stream);
  return WaitFor(*stream);
}

}  // namespace embps::testing
