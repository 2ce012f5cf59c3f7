#include "server/env/executor.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "server/env/thread_name.h"

namespace embps {

Executor::Executor(int thread_count, absl::string_view thread_name) {
  EMBPS_CHECK(thread_count >= 1);
  threads_.reserve(static_cast<size_t>(thread_count));
  for (int i = 0; i < thread_count; ++i) {
    threads_.emplace_back([this, name = absl::StrCat(thread_name, "-", i)] {
      SetThreadName(name);
      ThreadMain();
    });
  }
}

Executor::~Executor() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  task_ready_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Post(Task task) {
  {
    MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }
  task_ready_.NotifyOne();
}

void Executor::ThreadMain() {
  for (;;) {
    Task task;
    {
      MutexLock lock(&mu_);
      // A task that still runs may post another, so the last thread out waits for it.
      while (tasks_.empty() && !(stopping_ && running_ == 0)) task_ready_.Wait(&mu_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      ++running_;
    }
    std::move(task)();
    task = nullptr;  // what it holds goes while the task still counts as running
    MutexLock lock(&mu_);
    --running_;
    if (stopping_ && running_ == 0) task_ready_.NotifyAll();
  }
}

}  // namespace embps
