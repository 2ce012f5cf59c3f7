// One batch of click samples, and where a trainer gets its embeddings from.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace embps::examples {

// B samples with F bags of ids and N dense values each.
struct Batch {
  int64_t size = 0;              // B
  std::vector<float> dense;      // [B, N]
  std::vector<int64_t> lengths;  // [F * B], feature-major
  std::vector<int64_t> ids;      // [sum of lengths]
  std::vector<float> labels;     // [B], 0 or 1
};

// A categorical feature and the table that embeds it.
struct FeatureShape {
  std::string name;
  int64_t row_count = 0;
};

// Pooled embeddings of F features, D wide. The trainer knows nothing else about where they live.
class EmbeddingStore {
 public:
  virtual ~EmbeddingStore() = default;
  // Writes [B, F * D] SUM-pooled rows to `pooled`.
  virtual absl::Status Lookup(const Batch& batch, std::vector<float>* pooled) = 0;
  // grads: [B, F * D], of the loss by the pooled rows.
  virtual absl::Status Push(const Batch& batch, const std::vector<float>& grads) = 0;
};

// Where batches come from.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual const std::vector<FeatureShape>& features() const = 0;
  virtual int dense_count() const = 0;  // N
  // Batch `step` of the training samples: a pure function of the step.
  virtual Batch Training(int64_t step, int64_t batch_size) const = 0;
  // The held-out samples, the same on every call.
  virtual Batch HeldOut() const = 0;
  // Training samples of one epoch; 0 for an endless stream.
  virtual int64_t epoch_size() const = 0;
};

}  // namespace embps::examples
