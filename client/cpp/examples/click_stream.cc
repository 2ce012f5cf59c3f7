#include "client/cpp/examples/click_stream.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "client/cpp/examples/random_bits.h"

namespace embps::examples {
namespace {

struct FeaturePlan {
  const char* name;
  int64_t row_count;
  double weight_stddev;  // of the planted weights
  bool scaled;           // by size_factor
};

constexpr auto kPlan = std::to_array<FeaturePlan>({
    {"user_segment", 50'000, 0.45, true},
    {"item", 20'000, 0.55, true},
    {"advertiser", 5'000, 0.4, true},
    {"campaign", 2'000, 0.35, true},
    {"site", 1'000, 0.4, false},
    {"app", 500, 0.3, false},
    {"category", 200, 0.35, false},
    {"region", 100, 0.25, false},
    {"hour", 24, 0.2, false},
    {"device", 12, 0.3, false},
    {"history", 5'000, 0.3, true},
});
constexpr int kHistory = static_cast<int>(kPlan.size()) - 1;  // the multi-valued one
constexpr std::array<double, 4> kDenseWeights = {0.35, -0.25, 0.15, 0.0};
constexpr double kBias = -1.6;
constexpr double kZipf = 1.1;
constexpr int kMaxHistory = 4;
constexpr uint64_t kWeightStream = 1u << 20, kHeldOutBegin = uint64_t{1} << 60;

}  // namespace

ClickStream::ClickStream(const ClickStreamOptions& options) : options_(options) {
  for (size_t f = 0; f < kPlan.size(); ++f) {
    const double factor = kPlan[f].scaled ? options.size_factor : 1.0;
    const auto rows = std::max<int64_t>(2, std::llround(static_cast<double>(kPlan[f].row_count) * factor));
    features_.push_back({kPlan[f].name, rows});
    std::vector<float>& weights = weights_.emplace_back(rows);
    for (int64_t id = 0; id < rows; ++id) {
      RandomBits random(options.seed + kWeightStream * (f + 1), static_cast<uint64_t>(id));
      weights[id] = static_cast<float>(random.Normal() * kPlan[f].weight_stddev);
    }
  }
}

double ClickStream::PlantedWeight(int feature, int64_t id) const { return weights_[feature][id]; }

// The inverse of a continuous power law on [1, rows + 1), scattered over the id space.
int64_t ClickStream::DrawId(int feature, double uniform) const {
  const auto rows = static_cast<double>(features_[feature].row_count);
  const double power = 1.0 - kZipf;
  const double rank = std::pow(1.0 + uniform * (std::pow(rows + 1.0, power) - 1.0), 1.0 / power);
  const auto index = std::min(features_[feature].row_count - 1, static_cast<int64_t>(rank) - 1);
  return static_cast<int64_t>(Mix(static_cast<uint64_t>(index)) % static_cast<uint64_t>(features_[feature].row_count));
}

Batch ClickStream::Make(uint64_t first_sample, int64_t count) const {
  const auto feature_count = static_cast<int64_t>(features_.size());
  Batch batch;
  batch.size = count;
  batch.dense.resize(count * kDenseCount);
  batch.labels.resize(count);
  batch.lengths.assign(feature_count * count, 1);
  std::vector<std::vector<int64_t>> columns(feature_count);
  for (int64_t i = 0; i < count; ++i) {
    RandomBits random(options_.seed, first_sample + static_cast<uint64_t>(i));
    double logit = kBias;
    for (int d = 0; d < kDenseCount; ++d) {
      const double value = random.Normal();
      batch.dense[i * kDenseCount + d] = static_cast<float>(value);
      logit += kDenseWeights[d] * value;
    }
    for (int f = 0; f < feature_count; ++f) {
      const int length = f == kHistory ? static_cast<int>(random.Next() % (kMaxHistory + 1)) : 1;
      batch.lengths[f * count + i] = length;
      for (int j = 0; j < length; ++j) {
        columns[f].push_back(DrawId(f, random.Uniform()));
        logit += PlantedWeight(f, columns[f].back());
      }
    }
    batch.labels[i] = random.Uniform() < 1.0 / (1.0 + std::exp(-logit)) ? 1.0f : 0.0f;
  }
  for (const std::vector<int64_t>& column : columns) batch.ids.insert(batch.ids.end(), column.begin(), column.end());
  return batch;
}

Batch ClickStream::Training(int64_t step, int64_t batch_size) const {
  return Make(static_cast<uint64_t>(step) * static_cast<uint64_t>(batch_size), batch_size);
}

Batch ClickStream::HeldOut() const { return Make(kHeldOutBegin, options_.held_out_count); }

std::vector<float> ClickStream::PlantedProbabilities(const Batch& batch) const {
  std::vector<double> logits(batch.size, kBias);
  for (int64_t i = 0; i < batch.size; ++i) {
    for (int d = 0; d < kDenseCount; ++d) logits[i] += kDenseWeights[d] * batch.dense[i * kDenseCount + d];
  }
  auto id = batch.ids.begin();
  for (size_t f = 0; f < features_.size(); ++f) {
    for (int64_t i = 0; i < batch.size; ++i) {
      for (int64_t j = 0; j < batch.lengths[f * batch.size + i]; ++j) logits[i] += PlantedWeight(f, *id++);
    }
  }
  std::vector<float> probabilities(batch.size);
  std::transform(logits.begin(), logits.end(), probabilities.begin(),
                 [](double logit) { return static_cast<float>(1.0 / (1.0 + std::exp(-logit))); });
  return probabilities;
}

}  // namespace embps::examples
