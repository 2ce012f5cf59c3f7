#include "tests/unit/client/fake_cluster.h"

#include <future>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/check.h"

namespace embps::client {

// Calls run on a thread each, as a network's would.
class FakeCluster::FakeTransport final : public Transport {
 public:
  FakeTransport(FakeCluster* cluster, int node) : cluster_(cluster), node_(node) {}
  ~FakeTransport() override {
    std::vector<std::thread> threads;
    {
      MutexLock lock(&mu_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }
  void Start(const CallTarget& target, std::shared_ptr<CallHandler> handler) override {
    MutexLock lock(&mu_);
    threads_.emplace_back([this, target, handler = std::move(handler)] { cluster_->Run(node_, target, handler); });
  }

 private:
  FakeCluster* const cluster_;
  const int node_;
  Mutex mu_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

class FakeCluster::Factory final : public TransportFactory {
 public:
  explicit Factory(FakeCluster* cluster) : cluster_(cluster) {}
  std::unique_ptr<Transport> Connect(const std::string& endpoint) override {
    int node = 0;
    EMBPS_CHECK(absl::SimpleAtoi(absl::string_view(endpoint).substr(4), &node));
    return std::make_unique<FakeTransport>(cluster_, node);
  }

 private:
  FakeCluster* const cluster_;
};

FakeCluster::FakeCluster(std::vector<int> ranks_per_node) : scheduler_(std::make_shared<FakeScheduler>()) {
  const plan::Cluster cluster{ranks_per_node};
  for (int node = 0; node < cluster.node_count(); ++node) {
    servers_.push_back(std::make_unique<FakeServer>(node, cluster, "fake", 100 + static_cast<uint64_t>(node)));
  }
}

FakeCluster::~FakeCluster() { ReleaseHung(); }

ClientOptions FakeCluster::Options() const {
  ClientOptions options;
  for (size_t i = 0; i < servers_.size(); ++i) options.nodes.push_back(absl::StrCat("node", i));
  options.cluster_id = "fake";
  return options;
}

absl::StatusOr<std::unique_ptr<ClientImpl>> FakeCluster::Connect(const ClientOptions& options) {
  return ClientImpl::Connect(options, {scheduler_, std::make_shared<Factory>(this)});
}

std::unique_ptr<ClientImpl> FakeCluster::ConnectOrDie(const ClientOptions& options) {
  auto client = Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  EMBPS_CHECK(client.ok());
  return *std::move(client);
}

void FakeCluster::SetFaults(std::function<Fault(int, const std::string&)> faults) {
  MutexLock lock(&mu_);
  faults_ = std::move(faults);
}

void FakeCluster::ReleaseHung() {
  std::vector<std::shared_ptr<CallHandler>> hung;
  {
    MutexLock lock(&mu_);
    hung.swap(hung_);
  }
  for (const auto& handler : hung) handler->OnDone(absl::DeadlineExceededError("released"));
}

int FakeCluster::hung_count() {
  MutexLock lock(&mu_);
  return static_cast<int>(hung_.size());
}

void FakeCluster::Run(int node, const CallTarget& target, const std::shared_ptr<CallHandler>& handler) {
  std::vector<std::string> requests;
  for (bool last = false; !last;) {
    Message message;
    handler->NextRequest(&message, &last);
    requests.emplace_back();
    for (const Piece& piece : message.pieces) requests.back().append(piece.bytes.data(), piece.bytes.size());
    EXPECT_LE(requests.back().size(), size_t{4} << 20);
  }
  Fault fault;
  absl::StatusOr<std::vector<std::string>> replies = std::vector<std::string>();
  {
    MutexLock lock(&mu_);
    if (faults_) fault = faults_(node, target.method);
    if (fault.hang) {
      hung_.push_back(handler);
      return;
    }
    if (fault.refuse.ok()) replies = servers_[static_cast<size_t>(node)]->Handle(target.method, requests);
  }
  if (!fault.refuse.ok()) return handler->OnDone(fault.refuse);
  if (!fault.lose_reply.ok()) return handler->OnDone(fault.lose_reply);
  if (!replies.ok()) return handler->OnDone(replies.status());
  for (const std::string& reply : *replies) {
    // Cut in the middle, as a network does.
    auto owner = std::make_shared<std::string>(reply);
    const absl::string_view bytes = *owner;
    const size_t half = bytes.size() / 2;
    const absl::Status status = handler->OnReply({{{bytes.substr(0, half), owner}, {bytes.substr(half), owner}}});
    if (!status.ok()) return handler->OnDone(status);
  }
  handler->OnDone(absl::OkStatus());
}

absl::StatusOr<LookupResult> Lookup(ClientImpl& client, const KjtView& kjt, const LookupOptions& options) {
  auto result = std::make_shared<std::promise<absl::StatusOr<LookupResult>>>();
  client.LookupAsync(kjt, options, [result](absl::StatusOr<LookupResult> r) { result->set_value(std::move(r)); });
  return result->get_future().get();
}

PushOutcome PushGrad(ClientImpl& client, const KjtView& kjt, const Gradients& gradients, const PushOptions& options) {
  auto result = std::make_shared<std::promise<PushOutcome>>();
  client.PushGradAsync(kjt, gradients, options, [result](PushOutcome r) { result->set_value(std::move(r)); });
  return result->get_future().get();
}

PushOutcome Replay(ClientImpl& client, const PushOutcome& outcome) {
  auto result = std::make_shared<std::promise<PushOutcome>>();
  client.ReplayAsync(outcome, 0, [result](PushOutcome r) { result->set_value(std::move(r)); });
  return result->get_future().get();
}

TableConfig MakeTable(const std::string& name, int64_t rows, int32_t dim, std::vector<std::string> features,
                      Pooling pooling, ShardingType type, int node) {
  TableConfig config;
  config.spec.name = name;
  config.spec.row_count = rows;
  config.spec.dim = dim;
  config.features = std::move(features);
  config.pooling = pooling;
  config.sharding.type = type;
  config.sharding.node = node;
  return config;
}

}  // namespace embps::client
