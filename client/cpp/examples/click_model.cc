// Trains a click model whose embedding tables live on shard servers. The dense part and the optimizer of the dense part
// stay here, in the trainer. See --help.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/examples/census_data.h"
#include "client/cpp/examples/click_stream.h"
#include "client/cpp/examples/served_embeddings.h"
#include "client/cpp/examples/trainer.h"
#include "embps/client.h"
#include "proto/base/status_macros.h"

namespace embps::examples {
namespace {

struct Flags {
  std::vector<std::string> nodes;
  std::string cluster_id;
  std::string data;  // CSV; empty = the generated stream
  std::string losses;
  int64_t steps = 4000;
  int64_t batch_size = 2048;
  double size_factor = 1.0;
  uint64_t seed = 1;
  bool freeze_embeddings = false;
  ServedEmbeddingsOptions embeddings{.learning_rate = 0.03f};
  std::string sharding = "AUTO";
};

void ShowProgress(const Progress& progress, int64_t step_count, double smoothed_loss) {
  constexpr int kWidth = 40;
  static const bool terminal = isatty(STDOUT_FILENO) != 0;
  const int64_t stride = std::max<int64_t>(1, step_count / (terminal ? 200 : 10));
  if (progress.step % stride != 0 && progress.step != step_count) return;
  const auto filled = static_cast<int>(kWidth * progress.step / step_count);
  std::printf(
      "%s[%-*s] %5.1f %%  step %lld  loss %.4f%s", terminal ? "\r" : "", kWidth, std::string(filled, '#').c_str(),
      100.0 * static_cast<double>(progress.step) / static_cast<double>(step_count),
      static_cast<long long>(progress.step), smoothed_loss, terminal && progress.step != step_count ? "" : "\n");
  std::fflush(stdout);
}

void PrintMetrics(const char* who, const ClickMetrics& metrics) {
  std::printf("%-8s held-out AUC %.4f  normalised entropy %.4f  calibration %.3f\n", who, metrics.auc,
              metrics.normalised_entropy, metrics.calibration);
}

// Per table: what was asked of it and which rank of which node served how many ids.
absl::Status PrintStatistics(Client& client) {
  std::printf("\n%-14s %10s %10s %12s %12s  %s\n", "table", "lookups", "pushes", "ids", "row updates",
              "ids served (node/rank)");
  const std::vector<NodeStats> nodes = client.Stats();
  for (const NodeStats& node : nodes) EMBPS_RETURN_IF_ERROR(node.status);
  for (const auto& table : nodes.front().tables) {
    uint64_t lookups = 0, pushes = 0, ids = 0, updates = 0;
    std::string ranks;
    for (const NodeStats& node : nodes) {
      for (const TableStats& part : node.tables) {
        if (part.table_uid != table.table_uid) continue;
        lookups = std::max(lookups, part.lookups);
        pushes = std::max(pushes, part.pushes);
        ids += part.ids_looked_up;
        updates += part.rows_updated;
        for (size_t rank = 0; rank < part.ids_per_rank.size(); ++rank) {
          if (part.ids_per_rank[rank] == 0) continue;
          absl::StrAppend(&ranks, " ", node.node, "/", rank, ":", part.ids_per_rank[rank]);
        }
      }
    }
    std::printf("%-14s %10llu %10llu %12llu %12llu %s\n", table.name.c_str(), static_cast<unsigned long long>(lookups),
                static_cast<unsigned long long>(pushes), static_cast<unsigned long long>(ids),
                static_cast<unsigned long long>(updates), ranks.c_str());
  }
  for (const NodeStats& node : nodes) {
    std::vector<uint64_t> ids;
    for (const TableStats& table : node.tables) {
      ids.resize(std::max(ids.size(), table.ids_per_rank.size()));
      for (size_t rank = 0; rank < table.ids_per_rank.size(); ++rank) ids[rank] += table.ids_per_rank[rank];
    }
    for (size_t rank = 0; rank < ids.size(); ++rank) {
      std::printf("node %d rank %zu served %llu ids\n", node.node, rank, static_cast<unsigned long long>(ids[rank]));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteLosses(const std::string& path, const std::vector<double>& losses) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot write ", path));
  for (const double loss : losses) std::fprintf(file, "%.9g\n", loss);
  return std::fclose(file) == 0 ? absl::OkStatus() : absl::DataLossError(absl::StrCat("cannot write ", path));
}

absl::Status Run(const Flags& flags) {
  std::unique_ptr<BatchSource> source;
  const ClickStream* stream = nullptr;
  if (flags.data.empty()) {
    auto made = std::make_unique<ClickStream>(ClickStreamOptions{.seed = flags.seed, .size_factor = flags.size_factor});
    stream = made.get();
    source = std::move(made);
  } else {
    EMBPS_ASSIGN_OR_RETURN(source, CensusData::Load(flags.data));
  }

  ClientOptions client_options;
  client_options.nodes = flags.nodes;
  client_options.cluster_id = flags.cluster_id;
  client_options.client_name = "click_model";
  EMBPS_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(client_options));
  ServedEmbeddingsOptions embeddings = flags.embeddings;
  embeddings.seed = flags.seed;
  if (!ParseName(flags.sharding, &embeddings.sharding))
    return absl::InvalidArgumentError(absl::StrCat("--sharding ", flags.sharding));
  EMBPS_ASSIGN_OR_RETURN(const std::unique_ptr<ServedEmbeddings> store,
                         ServedEmbeddings::Create(client.get(), source->features(), embeddings));

  TrainingOptions training;
  training.step_count = flags.steps;
  training.batch_size = flags.batch_size;
  training.dim = embeddings.dim;
  training.freeze_embeddings = flags.freeze_embeddings;
  double smoothed = 0;
  EMBPS_ASSIGN_OR_RETURN(const TrainingResult result, Train(*source, *store, training, [&](const Progress& progress) {
                           smoothed = progress.step == 1 ? progress.loss : 0.98 * smoothed + 0.02 * progress.loss;
                           ShowProgress(progress, training.step_count, smoothed);
                         }));
  std::printf("%.0f samples/s over %.1f s%s\n", static_cast<double>(flags.steps * flags.batch_size) / result.seconds,
              result.seconds, flags.freeze_embeddings ? " (embeddings frozen)" : "");
  PrintMetrics("trained", result.held_out);
  if (stream != nullptr) {
    const Batch held_out = stream->HeldOut();
    PrintMetrics("planted", Measure(stream->PlantedProbabilities(held_out), held_out.labels));
  }
  if (!flags.losses.empty()) EMBPS_RETURN_IF_ERROR(WriteLosses(flags.losses, result.losses));
  return PrintStatistics(*client);
}

}  // namespace
}  // namespace embps::examples

int main(int argc, char** argv) {
  embps::examples::Flags flags;
  CLI::App app{"Trains a factorization machine whose embedding tables live on embps shard servers."};
  app.add_option("--nodes", flags.nodes, "host:port of every node, in any order")->delimiter(',')->required();
  app.add_option("--cluster_id", flags.cluster_id, "checked against the servers; empty = any");
  app.add_option("--data", flags.data, "UCI Adult CSV; default: a generated click stream with planted weights");
  app.add_option("--steps", flags.steps, "training steps")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch_size", flags.batch_size, "samples of a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dim", flags.embeddings.dim, "row width: 1 linear term and dim - 1 factors")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--learning_rate", flags.embeddings.learning_rate, "Adagrad on the tables")->capture_default_str();
  app.add_option("--sharding", flags.sharding, "of every table; AUTO = the planner chooses")->capture_default_str();
  app.add_option("--size_factor", flags.size_factor, "scales the generated tables")->capture_default_str();
  app.add_option("--seed", flags.seed, "of the stream and the initial rows")->capture_default_str();
  app.add_option("--losses", flags.losses, "write the loss of each step to this file");
  app.add_flag("--freeze_embeddings", flags.freeze_embeddings, "never push: tables stay at their initial rows");
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status status = embps::examples::Run(flags); !status.ok()) {
    std::fprintf(stderr, "click_model: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
