// One reduce_update with everything that it borrows: a table with state, gradients and the bags that they belong to.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/backend.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/random_bags.h"

namespace embps::testing {

inline constexpr kernels::OptimizerType kOptimizers[] = {kernels::OptimizerType::kSgd,
                                                         kernels::OptimizerType::kAdagrad,
                                                         kernels::OptimizerType::kRowwiseAdagrad,
                                                         kernels::OptimizerType::kAdam,
                                                         kernels::OptimizerType::kPartialRowwiseAdam,
                                                         kernels::OptimizerType::kLamb,
                                                         kernels::OptimizerType::kPartialRowwiseLamb,
                                                         kernels::OptimizerType::kLarsSgd};

// Hyperparameters with every term at work, at step t.
kernels::Optimizer TestOptimizer(kernels::OptimizerType type, kernels::WeightDecayMode mode, int64_t t);

struct UpdateOptions {
  kernels::Optimizer optimizer;
  kernels::ElementType type = kernels::ElementType::kFp32;
  int32_t dim = 4;
  int64_t row_count = 10;    // R
  int64_t stored_rows = -1;  // rows that have memory, from row 0; -1 = all
  bool weighted = false;
  bool stochastic = true;
  int64_t grad_padding = 0;  // floats between gradient rows
  bool exact_sums = false;   // gradients and weights whose sums are exact in fp32, for comparisons with double
  uint64_t seed = 1;
};

// The bytes of a table and its state.
struct TableBytes {
  std::vector<uint8_t> rows;
  std::vector<float> state0;
  std::vector<float> state1;
  bool operator==(const TableBytes& other) const;  // bit for bit
};

class UpdateCase {
 public:
  UpdateCase(const UpdateOptions& options, Bags bags);

  // Rows in about [-1, 1], positive state, as the seed says.
  void FillTable();
  // Sorts and updates on `backend`; fails the test when anything is written outside.
  void Run(kernels::Backend& backend);
  // The distinct rows that a plan of `backend` lists.
  std::vector<int64_t> DistinctRows(kernels::Backend& backend);
  TableBytes Snapshot() const;

  kernels::GradShape shape() const;
  kernels::GradSortTask SortTask();

  const UpdateOptions options;
  Bags bags;
  kernels::StateWidths widths;
  GuardedBuffer<uint8_t> rows;  // [R, D]
  GuardedBuffer<float> state0;  // [R, width]
  GuardedBuffer<float> state1;
  GuardedBuffer<float> grads;  // [S, D + padding]
  kernels::UpdateCounts counts;
  kernels::ReduceUpdateTask task;
};

}  // namespace embps::testing
