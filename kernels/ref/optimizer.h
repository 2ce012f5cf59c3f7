// The optimizers of numerics.md section 6 on one row in double. Derived from that table, not from kernels/math.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/api/reduce_update.h"

namespace embps::kernels::ref {

// A row with its state: `state0` and `state1` are as wide as StateWidthsOf says.
struct OptimizedRow {
  std::vector<double> x;
  std::vector<double> state0;
  std::vector<double> state1;
};

// Applies one step with summed gradient `g` to `row`, max_norm included. False, and `row` is meaningless, when g, a
// square, a sum over D, a new value of state or a new element would not be finite in fp32.
bool OptimizeRow(const Optimizer& optimizer, const std::vector<double>& g, OptimizedRow& row);

}  // namespace embps::kernels::ref
