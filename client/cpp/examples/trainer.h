// Trains a factorization machine on any source, with the embeddings in any store.
#pragma once
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/examples/batch.h"
#include "client/cpp/examples/factorization_machine.h"
#include "client/cpp/examples/metrics.h"

namespace embps::examples {

struct TrainingOptions {
  int64_t step_count = 1000;
  int64_t batch_size = 2048;
  int dim = 9;  // D of every table
  float dense_learning_rate = 0.05f;
  bool freeze_embeddings = false;  // never push: tables stay at their initial rows
};

struct Progress {
  int64_t step = 0;  // finished steps
  double loss = 0;   // mean cross entropy of this step's batch, before its update
};

struct TrainingResult {
  std::vector<double> losses;  // [step_count]
  ClickMetrics held_out;
  double seconds = 0;  // of the steps, without the evaluation
};

// Calls on_progress after each step. An error of the store ends the run.
absl::StatusOr<TrainingResult> Train(const BatchSource& source, EmbeddingStore& store, const TrainingOptions& options,
                                     const std::function<void(const Progress&)>& on_progress);

}  // namespace embps::examples
