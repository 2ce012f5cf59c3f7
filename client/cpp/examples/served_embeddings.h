// The embeddings of a trainer, on embps shard servers: one table per feature.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/examples/batch.h"
#include "embps/client.h"

namespace embps::examples {

struct ServedEmbeddingsOptions {
  int dim = 9;                  // D of every table
  float learning_rate = 0.05f;  // Adagrad
  uint64_t seed = 1;            // of the initial rows
  ShardingType sharding = ShardingType::kAuto;
};

class ServedEmbeddings final : public EmbeddingStore {
 public:
  // Creates the tables on the cluster that `client`, which must outlive this, is connected to.
  static absl::StatusOr<std::unique_ptr<ServedEmbeddings>> Create(Client* client,
                                                                  const std::vector<FeatureShape>& features,
                                                                  const ServedEmbeddingsOptions& options);

  absl::Status Lookup(const Batch& batch, std::vector<float>* pooled) override;
  absl::Status Push(const Batch& batch, const std::vector<float>& grads) override;

 private:
  ServedEmbeddings(Client* client, std::vector<std::string> keys) : client_(client), keys_(std::move(keys)) {}
  KjtView View(const Batch& batch) const;

  Client* const client_;
  const std::vector<std::string> keys_;
};

}  // namespace embps::examples
