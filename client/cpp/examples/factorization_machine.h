// A factorization machine (Rendle 2010) over pooled embeddings. The dense part, a bias and one weight per dense value,
// lives here, in the trainer; column 0 of each pooled row is the feature's linear term, the others are its factors:
//
//   logit = bias + <w, dense> + sum_f e_f[0] + 1/2 sum_k ((sum_f e_f[k])^2 - sum_f e_f[k]^2),   k = 1 .. D-1
#pragma once
#include <cstdint>
#include <vector>

#include "client/cpp/examples/batch.h"

namespace embps::examples {

struct FactorizationMachineOptions {
  int dense_count = 0;
  int feature_count = 0;        // F
  int dim = 9;                  // D, 1 linear + D - 1 factors
  float learning_rate = 0.05f;  // Adagrad on the dense part
};

class FactorizationMachine {
 public:
  explicit FactorizationMachine(const FactorizationMachineOptions& options);

  // Click probabilities [B] from pooled rows [B, F * D].
  std::vector<float> Predict(const Batch& batch, const std::vector<float>& pooled) const;

  // One step on the dense part. Returns the mean cross entropy; `grads` [B, F * D] receives the gradient of the *mean*
  // loss by the pooled rows.
  double Step(const Batch& batch, const std::vector<float>& pooled, std::vector<float>* grads);

 private:
  struct Forward {
    float logit = 0;
    std::vector<float> factor_sums;  // [D], entry 0 unused
  };
  void Evaluate(const Batch& batch, const std::vector<float>& pooled, int64_t sample, Forward* forward) const;
  void UpdateDense(int index, float gradient);

  const FactorizationMachineOptions options_;
  std::vector<float> dense_;    // [1 + N]: bias, then the weights
  std::vector<float> squares_;  // Adagrad's sums of squares, [1 + N]
};

}  // namespace embps::examples
