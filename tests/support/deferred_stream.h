// The stream of deferred_backend.h.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "kernels/api/stream.h"
#include "proto/base/mutex.h"

namespace embps::testing {

class DeferredStream final : public kernels::Stream {
 public:
  using Operation = absl::AnyInvocable<void(kernels::Stream& inner) &&>;

  DeferredStream(std::unique_ptr<kernels::Stream> inner, bool own_thread);
  // Finishes what OnComplete has handed over; drops what it has not.
  ~DeferredStream() override;

  void Add(Operation operation) { queue_.push_back(std::move(operation)); }
  void Enqueue(absl::AnyInvocable<absl::Status() &&> work) override;
  void OnComplete(absl::AnyInvocable<void(absl::Status) &&> done) override;

 private:
  struct Batch {
    std::vector<Operation> operations;
    absl::AnyInvocable<void(absl::Status) &&> done;
  };
  void Run(Batch batch);
  void ThreadMain();

  const std::unique_ptr<kernels::Stream> inner_;  // used by whoever runs batches
  std::vector<Operation> queue_;                  // used by whoever uses the stream

  Mutex mu_;
  CondVar changed_;
  std::deque<Batch> batches_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::optional<std::thread> thread_;  // last: it uses everything above
};

}  // namespace embps::testing
