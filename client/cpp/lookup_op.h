// One Lookup over all nodes: shape -> route -> one call per node -> merge. Starts over, within its deadline, when the
// plan was stale or, if the client is told to, when a node lost its state.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/batch_shape.h"
#include "client/cpp/cluster.h"
#include "client/cpp/data_calls.h"
#include "client/cpp/lookup_merger.h"
#include "client/cpp/router.h"
#include "embps/client.h"

namespace embps::client {

class LookupOp : public std::enable_shared_from_this<LookupOp> {
 public:
  using Done = std::function<void(absl::StatusOr<LookupResult>)>;

  // Borrows the cluster and the KJT's arrays until `done`, which comes once, perhaps inside Start.
  LookupOp(Cluster* cluster, const KjtView& kjt, const LookupOptions& options, Done done);
  void Start();

 private:
  absl::Status Prepare();
  void Send();
  void SendTo(int node);
  wire::RequestEncoder EncoderOf(int node) const;
  void OnNodeDone(int node, const absl::Status& status, const LookupReplyInfo& info);
  // After the last node. On the thread that brought the last reply.
  void Conclude();
  void TryAgain(int node, const absl::Status& status);
  void Deliver();
  void Fail(const absl::Status& status);

  Cluster* const cluster_;
  const KjtView kjt_;
  const LookupOptions options_;
  const TimePoint deadline_;
  Done done_;
  int tries_ = 0;

  BatchShape shape_;
  RoutedBatch routed_;
  std::unique_ptr<LookupMerger> merger_;
  std::vector<int> involved_;  // nodes with features, ascending

  struct NodeAnswer {
    absl::Status status;
    LookupReplyInfo info;
  };
  Mutex mu_;
  int open_calls_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<NodeAnswer> answers_ ABSL_GUARDED_BY(mu_);  // [N]
};

}  // namespace embps::client
