#include "server/env/worker_pool.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "server/env/thread_name.h"

namespace embps {
namespace {

// Tells the core that this is a wait, so that its sibling gets the resources.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int ResolveWorkers(int workers) {
  EMBPS_CHECK(workers >= 0);
  return workers > 0 ? workers : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

// Lives on the stack of Run. Threads enter it under mu_ while it is listed in open_, so once it is withdrawn and
// threads_inside is 0 nobody can reach it.
struct WorkerPool::Loop {
  Loop(int64_t count, absl::FunctionRef<void(int64_t)> body) : count(count), body(body) {}

  void Work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i);
  }
  bool exhausted() const { return next.load(std::memory_order_relaxed) >= count; }

  const int64_t count;
  const absl::FunctionRef<void(int64_t)> body;
  std::atomic<int64_t> next{0};
  int threads_inside = 0;  // guarded by mu_; the caller not counted
  CondVar left;            // threads_inside became 0
};

WorkerPool::WorkerPool(const WorkerPoolOptions& options)
    : worker_count_(ResolveWorkers(options.workers)), spin_us_(options.spin_us) {
  EMBPS_CHECK(spin_us_ >= 0);
  threads_.reserve(static_cast<size_t>(worker_count_ - 1));
  for (int i = 1; i < worker_count_; ++i) {
    threads_.emplace_back([this, i] {
      SetThreadName(absl::StrCat("worker-", i));
      ThreadMain();
    });
  }
}

WorkerPool::~WorkerPool() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  loop_ready_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Run(int64_t count, absl::FunctionRef<void(int64_t)> body) {
  if (count <= 1 || threads_.empty()) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  Loop loop(count, body);
  int to_wake = 0;
  {
    MutexLock lock(&mu_);
    open_.push_back(&loop);
    open_count_.store(static_cast<int>(open_.size()), std::memory_order_relaxed);
    to_wake = static_cast<int>(std::min<int64_t>(count - 1, sleeping_));
  }
  for (int i = 0; i < to_wake; ++i) loop_ready_.NotifyOne();
  loop.Work();
  MutexLock lock(&mu_);
  Withdraw(&loop);
  while (loop.threads_inside > 0) loop.left.Wait(&mu_);
}

void WorkerPool::ThreadMain() {
  for (;;) {
    Loop* loop = nullptr;
    {
      MutexLock lock(&mu_);
      while ((loop = PickLoop()) == nullptr) {
        if (stopping_) return;
        ++sleeping_;
        loop_ready_.Wait(&mu_);
        --sleeping_;
      }
      ++loop->threads_inside;
    }
    loop->Work();
    {
      MutexLock lock(&mu_);
      Withdraw(loop);
      // Under the lock: the caller cannot leave Run, and so destroy the loop, before this thread has let go of it.
      if (--loop->threads_inside == 0) loop->left.NotifyOne();
    }
    SpinForLoop();
  }
}

void WorkerPool::SpinForLoop() const {
  if (spin_us_ == 0) return;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us_);
  do {
    for (int i = 0; i < 16; ++i) {
      if (open_count_.load(std::memory_order_relaxed) > 0) return;
      SpinPause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
}

WorkerPool::Loop* WorkerPool::PickLoop() {
  Loop* best = nullptr;
  for (Loop* loop : open_) {
    if (loop->exhausted()) continue;
    if (best == nullptr || loop->threads_inside < best->threads_inside) best = loop;
  }
  return best;
}

void WorkerPool::Withdraw(const Loop* loop) {
  open_.erase(std::remove(open_.begin(), open_.end(), loop), open_.end());
  open_count_.store(static_cast<int>(open_.size()), std::memory_order_relaxed);
}

}  // namespace embps
