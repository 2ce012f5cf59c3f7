// A scheduler whose time jumps: work that is due within a few seconds runs at once, later work when the test advances.
#pragma once
#include <functional>
#include <map>
#include <thread>

#include "client/cpp/scheduler.h"
#include "proto/base/mutex.h"

namespace embps::client {

class FakeScheduler final : public Scheduler {
 public:
  static constexpr std::chrono::seconds kJump{5};

  FakeScheduler() : thread_([this] { Loop(); }) {}
  ~FakeScheduler() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  TimePoint Now() const override {
    MutexLock lock(&mu_);
    return now_;
  }
  void RunAt(TimePoint when, std::function<void()> work) override {
    MutexLock lock(&mu_);
    queue_.emplace(when, std::move(work));
    changed_.NotifyAll();
  }
  void Advance(std::chrono::milliseconds by) {
    MutexLock lock(&mu_);
    now_ += by;
    changed_.NotifyAll();
  }
  // Sum of the jumps: how long a client would have waited.
  std::chrono::milliseconds waited() const {
    MutexLock lock(&mu_);
    return std::chrono::duration_cast<std::chrono::milliseconds>(waited_);
  }

 private:
  void Loop() {
    for (;;) {
      std::function<void()> work;
      {
        MutexLock lock(&mu_);
        while (!stopping_ && (queue_.empty() || queue_.begin()->first > now_ + kJump)) changed_.Wait(&mu_);
        if (queue_.empty() || (stopping_ && queue_.begin()->first > now_ + kJump)) return;
        if (queue_.begin()->first > now_) {
          waited_ += queue_.begin()->first - now_;
          now_ = queue_.begin()->first;
        }
        work = std::move(queue_.begin()->second);
        queue_.erase(queue_.begin());
      }
      work();
    }
  }

  mutable Mutex mu_;
  CondVar changed_;
  TimePoint now_ ABSL_GUARDED_BY(mu_) = TimePoint(std::chrono::hours(1));
  TimePoint::duration waited_ ABSL_GUARDED_BY(mu_){};
  std::multimap<TimePoint, std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace embps::client
