// One PushGrad over all nodes: validate wholly -> wait for its turn -> one call per node that owns a shard of a table
// it names -> outcome. What a node has acknowledged is never sent to it again.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/cpp/batch_shape.h"
#include "client/cpp/cluster.h"
#include "client/cpp/data_calls.h"
#include "client/cpp/gradient_parts.h"
#include "client/cpp/push_data.h"
#include "client/cpp/router.h"

namespace embps::client {

class PushOp : public std::enable_shared_from_this<PushOp> {
 public:
  using Done = std::function<void(PushOutcome)>;

  // A new push. Borrows the cluster and the input's arrays until `done`, which comes once, perhaps inside Start.
  PushOp(Cluster* cluster, const PushInput& input, int timeout_ms, Done done);
  // The rest of an earlier one, which the caller has marked busy.
  PushOp(Cluster* cluster, std::shared_ptr<PushReplay> replay, int timeout_ms, Done done);
  void Start();

 private:
  // The whole validation, against the catalog of now.
  absl::Status Prepare();
  absl::Status CheckOptions() const;
  absl::Status CheckSameTables();
  void NameNodes();
  void TakeTurn(bool in_time);

  void Send();
  void SendTo(int node);
  bool HasToken(int node) const;
  wire::RequestEncoder EncoderOf(int node);
  v1::PushGradHeader HeaderOf(int node) const;
  absl::StatusOr<const RoutedBatch*> RoutedFor(bool by_token);
  void OnNodeDone(int node, const absl::Status& status, const v1::PushGradResponse& response, int attempts);

  // After the last node: done, or another round for the nodes whose fault can be cured.
  void Conclude();
  absl::Status Cure(int node);
  void CureAndSend(const std::vector<int>& nodes);
  void Deliver();
  void Refuse(const absl::Status& status);

  Cluster* const cluster_;
  std::shared_ptr<PushReplay> replay_;  // of an earlier push, or made at the end
  const PushInput input_;
  const TimePoint deadline_;
  Done done_;
  uint64_t sequence_ = 0;
  uint64_t digest_ = 0;
  uint64_t batch_digest_ = 0;  // if there is a token
  int rounds_ = 0;
  bool token_expired_ = false;
  bool replayed_ = false;
  std::vector<std::pair<std::string, uint64_t>> table_uids_;

  BatchShape shape_;
  std::optional<RoutedBatch> plain_;
  std::optional<RoutedBatch> by_token_;
  std::optional<GradientParts> gradients_;

  Mutex mu_;
  int open_calls_ ABSL_GUARDED_BY(mu_) = 0;
  // [N]. Between rounds only the thread that concludes the round touches it.
  std::vector<PushProgress> progress_;
};

}  // namespace embps::client
