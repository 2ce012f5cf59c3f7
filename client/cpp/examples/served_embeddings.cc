#include "client/cpp/examples/served_embeddings.h"

#include "proto/base/status_macros.h"

namespace embps::examples {

absl::StatusOr<std::unique_ptr<ServedEmbeddings>> ServedEmbeddings::Create(Client* client,
                                                                           const std::vector<FeatureShape>& features,
                                                                           const ServedEmbeddingsOptions& options) {
  std::vector<TableConfig> configs;
  std::vector<std::string> keys;
  for (const FeatureShape& feature : features) {
    TableConfig& config = configs.emplace_back();
    config.spec.name = feature.name;
    config.spec.row_count = feature.row_count;
    config.spec.dim = options.dim;
    config.spec.optimizer = {.type = OptimizerType::kAdagrad, .learning_rate = options.learning_rate};
    config.spec.initializer = {.kind = InitializerKind::kUniform, .a = -0.02f, .b = 0.02f, .seed = options.seed};
    config.sharding.type = options.sharding;
    keys.push_back(feature.name);
  }
  EMBPS_RETURN_IF_ERROR(client->CreateTables(configs).status());
  return std::unique_ptr<ServedEmbeddings>(new ServedEmbeddings(client, std::move(keys)));
}

KjtView ServedEmbeddings::View(const Batch& batch) const {
  KjtView view;
  view.keys = keys_;
  view.lengths = batch.lengths;
  view.values = batch.ids;
  return view;
}

absl::Status ServedEmbeddings::Lookup(const Batch& batch, std::vector<float>* pooled) {
  const KjtView view = View(batch);
  EMBPS_ASSIGN_OR_RETURN(const int64_t bytes, client_->PooledBytes(view));
  pooled->resize(bytes / sizeof(float));
  LookupOptions options;
  options.pooled_output = absl::MakeSpan(reinterpret_cast<char*>(pooled->data()), bytes);
  return client_->Lookup(view, options).status();
}

absl::Status ServedEmbeddings::Push(const Batch& batch, const std::vector<float>& grads) {
  return client_->PushGrad(View(batch), Gradients::Pooled(grads)).status;
}

}  // namespace embps::examples
