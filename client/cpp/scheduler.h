// Time for the SDK: a clock and "run this later". A fake one makes back-off instant in tests.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "proto/base/mutex.h"

namespace embps::client {

using TimePoint = std::chrono::steady_clock::time_point;

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual TimePoint Now() const = 0;
  // Runs `work` at `when` or a little later on a thread of the scheduler. `work` must not block.
  virtual void RunAt(TimePoint when, std::function<void()> work) = 0;
};

// One thread. What is still queued when it ends runs then.
class ThreadScheduler final : public Scheduler {
 public:
  ThreadScheduler();
  ~ThreadScheduler() override;
  TimePoint Now() const override;
  void RunAt(TimePoint when, std::function<void()> work) override;

 private:
  void Loop();

  Mutex mu_;
  CondVar wake_;
  std::multimap<TimePoint, std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// One thread that runs jobs in order and may block: recovery of nodes and refreshes of the plan, which ask several
// calls one after another.
class WorkThread {
 public:
  WorkThread();
  // Runs what is queued, then ends.
  ~WorkThread();
  void Post(std::function<void()> job);

 private:
  void Loop();

  Mutex mu_;
  CondVar wake_;
  std::vector<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace embps::client
