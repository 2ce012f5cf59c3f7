// reduce_update: sums the gradients of each distinct row in canonical order and applies the fused optimizer once.
#pragma once
#include "kernels/api/grad_sort.h"
#include "kernels/api/types.h"

namespace embps::kernels {

// Gradient rows before they are summed, in place: g = clamp(g * scale, +-max_gradient) / divisor.
struct GradPrepareTask {
  float* grads = nullptr;  // [S, D], rows contiguous
  int64_t slot_count = 0;
  int32_t dim = 0;
  float scale = 1.0f;
  float max_gradient = 0.0f;          // 0 = no clamp
  const int64_t* divisors = nullptr;  // [S] or null; an entry of 0 or 1 does not divide
};

// Hyperparameters in fp32. Formulas and defaults: kernels/math/optimizer.h.
struct Optimizer {
  OptimizerType type = OptimizerType::kSgd;
  float learning_rate = 0.01f;
  float eps = 1e-8f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eta = 0.001f;
  float momentum = 0.9f;
  float weight_decay = 0.0f;
  WeightDecayMode weight_decay_mode = WeightDecayMode::kNone;
  float max_norm = 0.0f;  // 0 = off
  // 1 - beta^t for this step, computed in double on the host, rounded once.
  float bias_correction1 = 1.0f;
  float bias_correction2 = 1.0f;
};

// Random bits of stochastic rounding: a pure function of (key, t, global row, global column). See
// kernels/math/philox.h.
struct Rounding {
  bool stochastic = false;  // else to nearest even; FP32 rows ignore both
  uint64_t key = 0;
  uint64_t step = 0;  // t
};

// Added to by the operation.
struct UpdateCounts {
  int64_t rows_updated = 0;      // distinct rows written
  int64_t rows_overflowed = 0;   // left untouched: sum, square or new state not finite
  int64_t values_saturated = 0;  // 16-bit elements held at the largest finite value
};

// One table shard. Gradient slots lie at grads + slot * grad_stride (a column slice points into wider rows).
struct ReduceUpdateTask {
  TableView table;
  GradShape shape;
  const void* plan = nullptr;  // from GradSort with the same shape
  const float* grads = nullptr;
  int64_t grad_stride = 0;  // elements, >= D
  Optimizer optimizer;
  Rounding rounding;
  UpdateCounts* counts = nullptr;
  void* workspace = nullptr;  // ReduceUpdateWorkspaceBytes(...) bytes, 64-byte aligned
};

}  // namespace embps::kernels
