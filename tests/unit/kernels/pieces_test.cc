#include "kernels/cpu/pieces.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/support/thread_for.h"

namespace embps::kernels::cpu {
namespace {

struct Task {
  int64_t units = 0;
  std::atomic<int>* seen = nullptr;
};

TEST(PiecesTest, EveryUnitIsCoveredExactlyOnce) {
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {0}, {1}, {0, 0, 5, 0}, {1000}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {3, 100000, 2}, {7, 0, 13, 999, 1, 0}};
  for (const auto& shape : shapes) {
    for (const int workers : {1, 2, 3, 8}) {
      for (const int64_t min_units : {1, 10, 100000}) {
        int64_t total = 0;
        for (const int64_t units : shape) total += units;
        std::vector<std::atomic<int>> seen(total);
        std::vector<Task> tasks;
        int64_t at = 0;
        for (const int64_t units : shape) {
          tasks.push_back({units, seen.data() + at});
          at += units;
        }
        testing::ThreadFor parallel(workers);
        ForEachPiece(
            absl::MakeConstSpan(tasks), parallel, min_units, [](const Task& task) { return task.units; },
            [](const Task& task, int64_t begin, int64_t end) {
              ASSERT_LT(begin, end);
              for (int64_t i = begin; i < end; ++i) ++task.seen[i];
            });
        for (const auto& count : seen) ASSERT_EQ(count, 1);
      }
    }
  }
}

// A ParallelFor that only counts.
class CountingFor final : public ParallelFor {
 public:
  explicit CountingFor(int workers) : workers_(workers) {}
  int worker_count() const override { return workers_; }
  void Run(int64_t count, absl::FunctionRef<void(int64_t)> body) override {
    pieces += count;
    for (int64_t i = 0; i < count; ++i) body(i);
  }
  int64_t pieces = 0;

 private:
  const int workers_;
};

TEST(PiecesTest, SmallWorkAndOneWorkerStayOnTheCaller) {
  const std::vector<Task> tasks = {{100, nullptr}};
  const auto run = [&](int workers, int64_t min_units) {
    CountingFor parallel(workers);
    ForEachPiece(
        absl::MakeConstSpan(tasks), parallel, min_units, [](const Task& task) { return task.units; },
        [](const Task&, int64_t, int64_t) {});
    return parallel.pieces;
  };
  EXPECT_EQ(run(1, 1), 0);
  EXPECT_EQ(run(4, 60), 0);
  EXPECT_EQ(run(4, 50), 2);
  EXPECT_EQ(run(4, 1), 4 * Policy().pieces_per_worker);
}

}  // namespace
}  // namespace embps::kernels::cpu
