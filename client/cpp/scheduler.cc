#include "client/cpp/scheduler.h"

#include <utility>

namespace embps::client {

ThreadScheduler::ThreadScheduler() : thread_([this] { Loop(); }) {}

ThreadScheduler::~ThreadScheduler() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  thread_.join();
}

TimePoint ThreadScheduler::Now() const { return std::chrono::steady_clock::now(); }

void ThreadScheduler::RunAt(TimePoint when, std::function<void()> work) {
  MutexLock lock(&mu_);
  queue_.emplace(when, std::move(work));
  wake_.NotifyAll();
}

void ThreadScheduler::Loop() {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(&mu_);
      while (!stopping_ && (queue_.empty() || queue_.begin()->first > Now())) {
        if (queue_.empty()) {
          wake_.Wait(&mu_);
        } else {
          wake_.WaitUntil(&mu_, queue_.begin()->first);
        }
      }
      if (queue_.empty()) return;
      work = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
    }
    work();
  }
}

WorkThread::WorkThread() : thread_([this] { Loop(); }) {}

WorkThread::~WorkThread() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  thread_.join();
}

void WorkThread::Post(std::function<void()> job) {
  MutexLock lock(&mu_);
  jobs_.push_back(std::move(job));
  wake_.NotifyAll();
}

void WorkThread::Loop() {
  for (;;) {
    std::vector<std::function<void()>> jobs;
    {
      MutexLock lock(&mu_);
      while (!stopping_ && jobs_.empty()) wake_.Wait(&mu_);
      if (jobs_.empty()) return;
      jobs.swap(jobs_);
    }
    for (std::function<void()>& job : jobs) job();
  }
}

}  // namespace embps::client
