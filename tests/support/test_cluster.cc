#include "tests/support/test_cluster.h"

#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/base/check.h"

namespace embps::testing {
namespace {

constexpr char kClusterId[] = "test-cluster";

template <class T>
std::unique_ptr<T> ValueOrDie(absl::StatusOr<std::unique_ptr<T>> value) {
  if (!value.ok()) std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  EMBPS_CHECK(value.ok());
  return *std::move(value);
}

}  // namespace

TestCluster::TestCluster(std::vector<int64_t> ranks_per_node, Adjust adjust)
    : ranks_per_node_(std::move(ranks_per_node)), adjust_(std::move(adjust)) {
  addresses_.resize(ranks_per_node_.size());
  servers_.resize(ranks_per_node_.size());
  for (int node = 0; node < node_count(); ++node) Start(node);
}

void TestCluster::Start(int node) {
  std::string& address = addresses_[static_cast<size_t>(node)];
  ServerOptions options;
  options.config.cluster_id = kClusterId;
  options.config.node_index = node;
  options.config.ranks_per_node = ranks_per_node_;
  options.config.listen = {address.empty() ? "127.0.0.1:0" : address};
  options.config.workers = 2;
  if (adjust_) adjust_(options);
  std::unique_ptr<Server>& server = servers_[static_cast<size_t>(node)];
  server = ValueOrDie(Server::Start(std::move(options)));
  address = server->addresses().at(0);
}

ClientOptions TestCluster::Options() const {
  ClientOptions options;
  options.nodes = addresses_;
  options.cluster_id = kClusterId;
  return options;
}

std::unique_ptr<Client> TestCluster::Connect(const ClientOptions& options) {
  return ValueOrDie(Client::Connect(options));
}

}  // namespace embps::testing
