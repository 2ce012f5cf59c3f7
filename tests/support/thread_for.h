// A ParallelFor for tests: real threads, started per loop, so that a sanitizer sees every hand-over.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/api/parallel_for.h"

namespace embps::testing {

class ThreadFor final : public kernels::ParallelFor {
 public:
  explicit ThreadFor(int workers) : workers_(workers) {}
  int worker_count() const override { return workers_; }
  void Run(int64_t count, absl::FunctionRef<void(int64_t)> body) override {
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      for (int64_t i = next++; i < count; i = next++) body(i);
    };
    std::vector<std::jthread> threads;
    for (int i = 1; i < workers_; ++i) threads.emplace_back(work);
    work();
  }

 private:
  const int workers_;
};

}  // namespace embps::testing
