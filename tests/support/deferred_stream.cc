#include "tests/support/deferred_stream.h"

#include <utility>

namespace embps::testing {

DeferredStream::DeferredStream(std::unique_ptr<kernels::Stream> inner, bool own_thread) : inner_(std::move(inner)) {
  if (own_thread) thread_.emplace([this] { ThreadMain(); });
}

DeferredStream::~DeferredStream() {
  if (!thread_) return;
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_->join();
}

void DeferredStream::Enqueue(absl::AnyInvocable<absl::Status() &&> work) {
  Add([work = std::move(work)](kernels::Stream& inner) mutable { inner.Enqueue(std::move(work)); });
}

void DeferredStream::OnComplete(absl::AnyInvocable<void(absl::Status) &&> done) {
  Batch batch{std::exchange(queue_, {}), std::move(done)};
  if (!thread_) {
    Run(std::move(batch));
    return;
  }
  MutexLock lock(&mu_);
  batches_.push_back(std::move(batch));
  changed_.NotifyAll();
}

void DeferredStream::Run(Batch batch) {
  for (Operation& operation : batch.operations) std::move(operation)(*inner_);
  batch.operations.clear();  // what they hold goes before `done`, as it would after an asynchronous operation
  inner_->OnComplete(std::move(batch.done));
}

void DeferredStream::ThreadMain() {
  for (;;) {
    Batch batch;
    {
      MutexLock lock(&mu_);
      while (batches_.empty() && !stopping_) changed_.Wait(&mu_);
      if (batches_.empty()) return;
      batch = std::move(batches_.front());
      batches_.pop_front();
    }
    Run(std::move(batch));
  }
}

}  // namespace embps::testing
