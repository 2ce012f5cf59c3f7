// Small valid specs for the tests of proto/plan.
#pragma once
#include <cstdint>
#include <string>

#include "embps/v1/types.pb.h"

namespace embps::plan {

inline v1::TableSpec MakeSpec(const std::string& name, int64_t row_count, int32_t dim,
                              v1::OptimizerType optimizer = v1::OPTIMIZER_TYPE_SGD) {
  v1::TableSpec spec;
  spec.set_name(name);
  spec.set_row_count(row_count);
  spec.set_dim(dim);
  spec.mutable_optimizer()->set_type(optimizer);
  return spec;
}

}  // namespace embps::plan
