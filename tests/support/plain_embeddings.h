// Embedding tables as plain loops in memory with Adagrad: what the served trainer is compared with. Shares no code with
// server or kernels.
#pragma once
#include <vector>

#include "client/cpp/examples/batch.h"

namespace embps::examples {

class PlainEmbeddings final : public EmbeddingStore {
 public:
  struct Table {
    std::vector<float> rows;     // [R, D]
    std::vector<float> squares;  // [R, D], Adagrad's sums
  };
  // One table per feature; rows as given, state zero.
  PlainEmbeddings(std::vector<std::vector<float>> initial_rows, int dim, float learning_rate);

  absl::Status Lookup(const Batch& batch, std::vector<float>* pooled) override;
  absl::Status Push(const Batch& batch, const std::vector<float>& grads) override;

  const std::vector<Table>& tables() const { return tables_; }

 private:
  const int dim_;
  const float learning_rate_;
  std::vector<Table> tables_;
};

}  // namespace embps::examples
