#include "client/cpp/examples/trainer.h"

#include <algorithm>
#include <chrono>

#include "proto/base/status_macros.h"

namespace embps::examples {
namespace {

constexpr int64_t kEvaluationBatch = 8192;

// Samples [begin, begin + count) of `batch`.
Batch Slice(const Batch& batch, int64_t begin, int64_t count, int dense_count) {
  Batch slice;
  slice.size = count;
  slice.dense.assign(batch.dense.begin() + begin * dense_count, batch.dense.begin() + (begin + count) * dense_count);
  slice.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + begin + count);
  auto id = batch.ids.begin();
  for (auto length = batch.lengths.begin(); length != batch.lengths.end(); length += batch.size) {
    for (int64_t i = 0; i < batch.size; ++i) {
      const bool inside = i >= begin && i < begin + count;
      if (inside) {
        slice.lengths.push_back(length[i]);
        slice.ids.insert(slice.ids.end(), id, id + length[i]);
      }
      id += length[i];
    }
  }
  return slice;
}

absl::StatusOr<ClickMetrics> Evaluate(const BatchSource& source, EmbeddingStore& store,
                                      const FactorizationMachine& model) {
  const Batch all = source.HeldOut();
  std::vector<float> scores, pooled;
  for (int64_t begin = 0; begin < all.size; begin += kEvaluationBatch) {
    const Batch batch = Slice(all, begin, std::min(kEvaluationBatch, all.size - begin), source.dense_count());
    EMBPS_RETURN_IF_ERROR(store.Lookup(batch, &pooled));
    const std::vector<float> part = model.Predict(batch, pooled);
    scores.insert(scores.end(), part.begin(), part.end());
  }
  return Measure(scores, all.labels);
}

}  // namespace

absl::StatusOr<TrainingResult> Train(const BatchSource& source, EmbeddingStore& store, const TrainingOptions& options,
                                     const std::function<void(const Progress&)>& on_progress) {
  FactorizationMachine model({.dense_count = source.dense_count(),
                              .feature_count = static_cast<int>(source.features().size()),
                              .dim = options.dim,
                              .learning_rate = options.dense_learning_rate});
  TrainingResult result;
  std::vector<float> pooled, grads;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < options.step_count; ++step) {
    const Batch batch = source.Training(step, options.batch_size);
    EMBPS_RETURN_IF_ERROR(store.Lookup(batch, &pooled));
    result.losses.push_back(model.Step(batch, pooled, &grads));
    if (!options.freeze_embeddings) EMBPS_RETURN_IF_ERROR(store.Push(batch, grads));
    on_progress({step + 1, result.losses.back()});
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EMBPS_ASSIGN_OR_RETURN(result.held_out, Evaluate(source, store, model));
  return result;
}

}  // namespace embps::examples
