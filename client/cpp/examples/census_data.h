// UCI "Adult" (1994 census extract): will a person earn more than 50K a year? A small public table on which the served
// model's quality can be compared with published results. Every 5th line is held out. The columns race, sex and fnlwgt
// (a sampling weight) are not used.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/examples/batch.h"

namespace embps::examples {

class CensusData final : public BatchSource {
 public:
  // path: the CSV as UCI publishes it, 15 columns, no header. Errors name the line.
  static absl::StatusOr<std::unique_ptr<CensusData>> Load(const std::string& path);

  const std::vector<FeatureShape>& features() const override { return features_; }
  int dense_count() const override { return 0; }
  Batch Training(int64_t step, int64_t batch_size) const override;
  Batch HeldOut() const override;
  int64_t epoch_size() const override { return static_cast<int64_t>(training_.size()); }

 private:
  struct Sample {
    std::vector<int64_t> ids;  // [F]
    float label = 0;
  };
  CensusData() = default;
  Batch Make(const std::vector<const Sample*>& samples) const;

  std::vector<FeatureShape> features_;
  std::vector<Sample> training_, held_out_;
};

}  // namespace embps::examples
