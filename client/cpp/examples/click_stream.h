// An endless click log in the manner of the Criteo data: dense values, categorical features with power-law ids, one
// multi-valued feature that is often empty. Labels are drawn from planted weights, so the best reachable AUC is known.
#pragma once
#include <cstdint>
#include <vector>

#include "client/cpp/examples/batch.h"

namespace embps::examples {

struct ClickStreamOptions {
  uint64_t seed = 1;
  double size_factor = 1.0;  // scales the rows of the large tables; small for tests
  int64_t held_out_count = 100'000;
};

class ClickStream final : public BatchSource {
 public:
  explicit ClickStream(const ClickStreamOptions& options);

  const std::vector<FeatureShape>& features() const override { return features_; }
  int dense_count() const override { return kDenseCount; }
  Batch Training(int64_t step, int64_t batch_size) const override;
  Batch HeldOut() const override;
  int64_t epoch_size() const override { return 0; }

  // The planted model's click probability of each sample of `batch`, [B]: scores that nothing can beat.
  std::vector<float> PlantedProbabilities(const Batch& batch) const;

 private:
  static constexpr int kDenseCount = 4;
  Batch Make(uint64_t first_sample, int64_t count) const;
  double PlantedWeight(int feature, int64_t id) const;
  int64_t DrawId(int feature, double uniform) const;

  const ClickStreamOptions options_;
  std::vector<FeatureShape> features_;
  std::vector<std::vector<float>> weights_;  // per feature [rows]
};

}  // namespace embps::examples
