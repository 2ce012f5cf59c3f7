// Fake servers behind fake transports, with faults on request.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/client_impl.h"
#include "client/cpp/cluster.h"
#include "embps/client.h"
#include "proto/base/mutex.h"
#include "tests/unit/client/fake_scheduler.h"
#include "tests/unit/client/fake_server.h"

namespace embps::client {

// What happens to one attempt of a call.
struct Fault {
  absl::Status refuse{};      // not OK: never reaches the server
  absl::Status lose_reply{};  // not OK: the server does the work, the client gets this
  bool hang = false;          // no answer until FakeCluster::ReleaseHung, which then fails it with DEADLINE_EXCEEDED
};

class FakeCluster {
 public:
  explicit FakeCluster(std::vector<int> ranks_per_node);
  ~FakeCluster();

  // Endpoints "node0", "node1", ...
  ClientOptions Options() const;
  absl::StatusOr<std::unique_ptr<ClientImpl>> Connect(const ClientOptions& options);
  std::unique_ptr<ClientImpl> ConnectOrDie() { return ConnectOrDie(Options()); }
  std::unique_ptr<ClientImpl> ConnectOrDie(const ClientOptions& options);

  // Asked before each attempt of a call to `node`.
  void SetFaults(std::function<Fault(int node, const std::string& method)> faults);
  // Runs `work` with the server locked.
  template <class Work>
  auto With(int node, Work&& work) {
    MutexLock lock(&mu_);
    return work(*servers_[static_cast<size_t>(node)]);
  }
  // Inside the function given to SetFaults.
  FakeServer& LockedServer(int node) ABSL_NO_THREAD_SAFETY_ANALYSIS { return *servers_[static_cast<size_t>(node)]; }
  void ReleaseHung();
  FakeScheduler& scheduler() { return *scheduler_; }
  int node_count() const { return static_cast<int>(servers_.size()); }
  // Calls that are held by Fault::hang.
  int hung_count();

 private:
  class FakeTransport;
  class Factory;
  friend class FakeTransport;
  void Run(int node, const CallTarget& target, const std::shared_ptr<CallHandler>& handler);

  const std::shared_ptr<FakeScheduler> scheduler_;
  Mutex mu_;
  std::vector<std::unique_ptr<FakeServer>> servers_;
  std::function<Fault(int, const std::string&)> faults_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<CallHandler>> hung_ ABSL_GUARDED_BY(mu_);
};

// Synchronous forms of the two operations, as Client has them.
absl::StatusOr<LookupResult> Lookup(ClientImpl& client, const KjtView& kjt, const LookupOptions& options = {});
PushOutcome PushGrad(ClientImpl& client, const KjtView& kjt, const Gradients& gradients,
                     const PushOptions& options = {});
PushOutcome Replay(ClientImpl& client, const PushOutcome& outcome);

// A table of small integers.
TableConfig MakeTable(const std::string& name, int64_t rows, int32_t dim, std::vector<std::string> features,
                      Pooling pooling = Pooling::kSum, ShardingType type = ShardingType::kTableWise, int node = -1);

}  // namespace embps::client
