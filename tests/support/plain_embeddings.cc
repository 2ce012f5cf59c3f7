#include "tests/support/plain_embeddings.h"

#include <cmath>
#include <map>
#include <utility>

namespace embps::examples {

PlainEmbeddings::PlainEmbeddings(std::vector<std::vector<float>> initial_rows, int dim, float learning_rate)
    : dim_(dim), learning_rate_(learning_rate) {
  for (std::vector<float>& rows : initial_rows) {
    const size_t size = rows.size();
    tables_.push_back({std::move(rows), std::vector<float>(size, 0.0f)});
  }
}

absl::Status PlainEmbeddings::Lookup(const Batch& batch, std::vector<float>* pooled) {
  const size_t features = tables_.size();
  pooled->assign(batch.size * features * dim_, 0.0f);
  size_t next = 0;
  for (size_t f = 0; f < features; ++f) {
    for (int64_t i = 0; i < batch.size; ++i) {
      float* out = pooled->data() + (i * features + f) * dim_;
      for (int64_t j = 0; j < batch.lengths[f * batch.size + i]; ++j) {
        const float* row = tables_[f].rows.data() + batch.ids[next++] * dim_;
        for (int c = 0; c < dim_; ++c) out[c] += row[c];
      }
    }
  }
  return absl::OkStatus();
}

absl::Status PlainEmbeddings::Push(const Batch& batch, const std::vector<float>& grads) {
  const size_t features = tables_.size();
  size_t next = 0;
  for (size_t f = 0; f < features; ++f) {
    std::map<int64_t, std::vector<double>> sums;
    for (int64_t i = 0; i < batch.size; ++i) {
      const float* grad = grads.data() + (i * features + f) * dim_;
      for (int64_t j = 0; j < batch.lengths[f * batch.size + i]; ++j) {
        std::vector<double>& sum = sums.try_emplace(batch.ids[next++], dim_, 0.0).first->second;
        for (int c = 0; c < dim_; ++c) sum[c] += grad[c];
      }
    }
    for (const auto& [id, sum] : sums) {
      for (int c = 0; c < dim_; ++c) {
        float& square = tables_[f].squares[id * dim_ + c];
        square += static_cast<float>(sum[c] * sum[c]);
        tables_[f].rows[id * dim_ + c] -= static_cast<float>(learning_rate_ * sum[c] / (std::sqrt(square) + 1e-8));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace embps::examples
