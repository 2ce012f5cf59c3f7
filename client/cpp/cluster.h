// What all calls of a client share: the nodes, the catalog of attached tables, time, memory, and the ways back after a
// restart or a stale plan.
#pragma once
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/catalog.h"
#include "client/cpp/mutation_queue.h"
#include "client/cpp/node.h"
#include "client/cpp/scheduler.h"
#include "client/cpp/tensor_pool.h"
#include "client/cpp/transport.h"
#include "embps/options.h"
#include "proto/base/mutex.h"

namespace embps::client {

// The parts that tests replace.
struct ClusterParts {
  std::shared_ptr<Scheduler> scheduler;
  std::shared_ptr<TransportFactory> transports;
};

class Cluster {
 public:
  // Asks every endpoint who it is, in any order, until connect_timeout_ms; checks that they are one whole cluster;
  // opens the sessions. WRONG_CLUSTER, UNAVAILABLE, DEADLINE_EXCEEDED.
  static absl::StatusOr<std::unique_ptr<Cluster>> Connect(const ClientOptions& options, ClusterParts parts);
  // Waits for the calls in flight, then closes the sessions, each within a second.
  ~Cluster();

  const ClientOptions& options() const { return options_; }
  int node_count() const { return static_cast<int>(nodes_.size()); }
  Node& node(int index) { return *nodes_[static_cast<size_t>(index)]; }
  Scheduler& scheduler() { return *parts_.scheduler; }
  // For steps that ask several calls one after another.
  WorkThread& work_thread() { return *work_thread_; }
  TensorPool& pool() { return pool_; }
  const std::shared_ptr<MutationQueue>& mutations() { return mutations_; }
  TimePoint DeadlineAfter(int timeout_ms) { return scheduler().Now() + std::chrono::milliseconds(timeout_ms); }

  std::shared_ptr<const Catalog> catalog() const;
  void set_catalog(std::shared_ptr<const Catalog> catalog);
  // Held while somebody derives the next catalog from the last and puts it in.
  Mutex& catalog_writer() ABSL_LOCK_RETURNED(catalog_writer_) { return catalog_writer_; }

  // The tables as `node` stores them; "" = of all namespaces.
  absl::StatusOr<std::vector<v1::Table>> ListTables(int node, const std::string& table_namespace, TimePoint deadline);

  // --- These wait for replies.

  // Takes over what node 0 says of the attached tables. TABLE_NOT_FOUND names one that is gone.
  absl::Status RefreshCatalog(TimePoint deadline);
  // `status` as `node` answered it; STATE_ROLLED_BACK instead if the node has restarted since the sessions were opened,
  // which is what SESSION_ENDED and TABLE_NOT_FOUND then mean. Counts the restart.
  absl::Status Diagnose(int node, const absl::Status& status, TimePoint deadline);
  // New sessions where the server restarted or ended them; attached tables that a node lacks are created there again.
  absl::Status Recover(TimePoint deadline);
  uint64_t rollback_count() const;

  // Calls in flight, for the destructor.
  void Enter();
  void Leave();

 private:
  Cluster(const ClientOptions& options, ClusterParts parts);

  absl::Status FindNodes();
  absl::StatusOr<ServerInfo> Identify(Node& node, TimePoint deadline);
  absl::Status OpenSession(Node& node, ServerInfo info, TimePoint deadline);
  absl::Status RestoreTables(TimePoint deadline);
  absl::Status RestoreOn(int node, const std::vector<v1::Table>& wanted, TimePoint deadline);
  void CloseSessions();

  const ClientOptions options_;
  ClusterParts parts_;
  TensorPool pool_;
  std::shared_ptr<MutationQueue> mutations_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by node index
  std::unique_ptr<WorkThread> work_thread_;

  Mutex recover_mu_;  // one Recover at a time
  Mutex catalog_writer_;
  mutable Mutex mu_;
  CondVar idle_;
  int calls_in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<const Catalog> catalog_ ABSL_GUARDED_BY(mu_);
  std::set<uint64_t> restarts_ ABSL_GUARDED_BY(mu_);           // incarnations that replaced one
  std::set<std::string> ended_sessions_ ABSL_GUARDED_BY(mu_);  // that a server said it ended
};

}  // namespace embps::client
