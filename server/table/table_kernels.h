// What a table's spec means to the kernels. Specs are normalised: no field is unset or UNSPECIFIED.
#pragma once
#include <cstdint>

#include "embps/v1/types.pb.h"
#include "kernels/api/backend.h"

namespace embps {

kernels::ElementType KernelElementType(v1::DataType type);
kernels::OptimizerType KernelOptimizerType(v1::OptimizerType type);

// With the bias corrections of step t >= 1 and this push's learning rate.
kernels::Optimizer KernelOptimizer(const v1::OptimizerSpec& spec, float learning_rate, int64_t step);

// Random bits of step t. The key depends on the table's name (without its namespace) and the initializer's seed.
kernels::Rounding KernelRounding(const v1::TableSpec& spec, int64_t step);

// Initial rows [first_row, first_row + count), local, of the shard with this view.
kernels::InitRowsTask KernelInitRows(const v1::TableSpec& spec, const kernels::TableView& view, int64_t first_row,
                                     int64_t count);

}  // namespace embps
