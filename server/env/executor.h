// A few threads that run closures which must not run where they arise: release callbacks of gRPC slices, admissions
// that became possible, replies to joined duplicates.
#pragma once
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"

namespace embps {

class Executor {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // thread_count >= 1. With one thread, tasks run in the order they were posted.
  explicit Executor(int thread_count, absl::string_view thread_name = "executor");
  // Runs everything that was posted, also what those tasks post, then stops. Not from a task of its own.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Never blocks and never runs the task on the calling thread. Tasks should not block.
  void Post(Task task);

 private:
  void ThreadMain();

  Mutex mu_;
  CondVar task_ready_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mu_);
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace embps
