// The gradient rows of each part of a push: views of the caller's tensors where they lie right, gathered rows where a
// part takes only some rows or scattered columns, and sums over samples where inverse indices expanded the lookup.
#pragma once
#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/batch_shape.h"
#include "client/cpp/router.h"
#include "client/cpp/tensor_pool.h"
#include "embps/kjt.h"
#include "embps/options.h"
#include "embps/tensor.h"
#include "proto/wire/jagged_check.h"

namespace embps::client {

class GradientParts {
 public:
  // Checks sizes against the shape and, with kRefuse, that everything is finite; sums samples. Borrows everything.
  static absl::StatusOr<GradientParts> Create(const BatchShape& shape, const KjtView& kjt, const Gradients& gradients,
                                              NonfinitePolicy policy, TensorPool* pool);

  // What travels: fp32 when samples were summed, else the caller's type.
  DataType type() const { return type_; }
  // The rows that `part`, routed to `node`, takes.
  wire::GradView ViewOf(int node, const RoutedFeature& part, const RoutedOutput& routed);

 private:
  // Row-major rows of one output; pooled: a row per slot, sequence: a row per id of the caller.
  struct Source {
    const char* rows = nullptr;
    int64_t row_count = 0;
    int64_t row_step = 0;  // elements
  };

  GradientParts(const BatchShape& shape, NonfinitePolicy policy, TensorPool* pool)
      : shape_(&shape), policy_(policy), pool_(pool) {}
  absl::Status CheckSizes(const Gradients& gradients) const;
  Source SourceOf(const BatchOutput& output, const Gradients& gradients) const;
  absl::Status CheckFinite(const KjtView& kjt, const BatchOutput& output, const Source& source) const;
  Source SumSamples(const KjtView& kjt, const BatchOutput& output, const Source& source, DataType type);

  const BatchShape* shape_;
  NonfinitePolicy policy_;
  TensorPool* pool_;
  DataType type_ = DataType::kFp32;
  std::vector<Source> sources_;                // [outputs]
  std::vector<std::shared_ptr<char>> memory_;  // of sums and gathered rows
};

}  // namespace embps::client
