#include "client/cpp/examples/factorization_machine.h"

#include <cmath>

namespace embps::examples {
namespace {

float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

}  // namespace

FactorizationMachine::FactorizationMachine(const FactorizationMachineOptions& options)
    : options_(options), dense_(1 + options.dense_count), squares_(1 + options.dense_count) {}

void FactorizationMachine::Evaluate(const Batch& batch, const std::vector<float>& pooled, int64_t sample,
                                    Forward* forward) const {
  const int dim = options_.dim;
  forward->factor_sums.assign(dim, 0.0f);
  float logit = dense_[0], squares = 0;
  for (int d = 0; d < options_.dense_count; ++d) {
    logit += dense_[1 + d] * batch.dense[sample * options_.dense_count + d];
  }
  const float* row = pooled.data() + sample * options_.feature_count * dim;
  for (int f = 0; f < options_.feature_count; ++f, row += dim) {
    logit += row[0];
    for (int k = 1; k < dim; ++k) {
      forward->factor_sums[k] += row[k];
      squares += row[k] * row[k];
    }
  }
  float pairs = -squares;
  for (int k = 1; k < dim; ++k) pairs += forward->factor_sums[k] * forward->factor_sums[k];
  forward->logit = logit + 0.5f * pairs;
}

std::vector<float> FactorizationMachine::Predict(const Batch& batch, const std::vector<float>& pooled) const {
  std::vector<float> probabilities(batch.size);
  Forward forward;
  for (int64_t i = 0; i < batch.size; ++i) {
    Evaluate(batch, pooled, i, &forward);
    probabilities[i] = Sigmoid(forward.logit);
  }
  return probabilities;
}

double FactorizationMachine::Step(const Batch& batch, const std::vector<float>& pooled, std::vector<float>* grads) {
  const int dim = options_.dim;
  const float inverse_size = 1.0f / static_cast<float>(batch.size);
  grads->resize(pooled.size());
  std::vector<float> dense_grads(dense_.size(), 0.0f);
  double loss = 0;
  Forward forward;
  for (int64_t i = 0; i < batch.size; ++i) {
    Evaluate(batch, pooled, i, &forward);
    const float label = batch.labels[i];
    // log(1 + exp(-|x|)) + max(x, 0) - x * label, stable for any logit
    loss += std::log1p(std::exp(-std::abs(forward.logit))) + std::max(forward.logit, 0.0f) - forward.logit * label;
    const float delta = (Sigmoid(forward.logit) - label) * inverse_size;
    dense_grads[0] += delta;
    for (int d = 0; d < options_.dense_count; ++d) {
      dense_grads[1 + d] += delta * batch.dense[i * options_.dense_count + d];
    }
    const float* row = pooled.data() + i * options_.feature_count * dim;
    float* grad = grads->data() + i * options_.feature_count * dim;
    for (int f = 0; f < options_.feature_count; ++f, row += dim, grad += dim) {
      grad[0] = delta;
      for (int k = 1; k < dim; ++k) grad[k] = delta * (forward.factor_sums[k] - row[k]);
    }
  }
  for (size_t d = 0; d < dense_.size(); ++d) UpdateDense(static_cast<int>(d), dense_grads[d]);
  return loss / static_cast<double>(batch.size);
}

void FactorizationMachine::UpdateDense(int index, float gradient) {
  squares_[index] += gradient * gradient;
  dense_[index] -= options_.learning_rate * gradient / (std::sqrt(squares_[index]) + 1e-8f);
}

}  // namespace embps::examples
