// A thread that does something again and again.
#pragma once
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "proto/base/mutex.h"
#include "server/env/thread_name.h"

namespace embps {

class Ticker {
 public:
  Ticker(std::chrono::milliseconds period, std::function<void()> tick)
      : period_(period), tick_(std::move(tick)), thread_([this] { Run(); }) {}
  // Returns when no tick runs any more.
  ~Ticker() {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
    }
    wake_.NotifyAll();
    thread_.join();
  }

 private:
  void Run() {
    SetThreadName("ticker");
    while (WaitForNext()) tick_();
  }
  bool WaitForNext() {
    const auto next = std::chrono::steady_clock::now() + period_;
    MutexLock lock(&mu_);
    while (!stopping_ && wake_.WaitUntil(&mu_, next)) {
    }
    return !stopping_;
  }

  const std::chrono::milliseconds period_;
  const std::function<void()> tick_;
  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace embps
