// ParallelFor on persistent threads: how a lane uses all cores of the node.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "kernels/api/parallel_for.h"
#include "proto/base/mutex.h"

namespace embps {

struct WorkerPoolOptions {
  // Threads that compute in one loop, the calling one included: workers - 1 are started. 0 = one per core. 1 computes
  // everything on the caller.
  int workers = 0;
  // How long an idle thread looks for the next loop before it sleeps, in microseconds. The operations of one flow
  // follow each other within some microseconds while waking a thread takes tens. 0 = sleep at once.
  int spin_us = 20;
};

// Several loops may run at once (one per lane): each caller works on its own loop, idle threads join the loop that has
// the fewest threads. Indices are handed out one by one, in increasing order. The pool must outlive every Run.
class WorkerPool final : public kernels::ParallelFor {
 public:
  explicit WorkerPool(const WorkerPoolOptions& options = {});
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int worker_count() const override { return worker_count_; }
  void Run(int64_t count, absl::FunctionRef<void(int64_t)> body) override;

 private:
  struct Loop;
  void ThreadMain();
  void SpinForLoop() const;
  Loop* PickLoop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Withdraw(const Loop* loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int worker_count_;
  const int spin_us_;

  // Mirrors open_.size() for threads that spin; decisions are made under mu_.
  std::atomic<int> open_count_{0};

  Mutex mu_;
  CondVar loop_ready_;
  std::vector<Loop*> open_ ABSL_GUARDED_BY(mu_);  // loops that may still have indices to hand out
  int sleeping_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace embps
