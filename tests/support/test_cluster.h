// A cluster of real servers in this process, each on a free port, and SDK clients connected to it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "embps/client.h"
#include "server/server.h"

namespace embps::testing {

class TestCluster {
 public:
  using Adjust = std::function<void(ServerOptions&)>;

  // One server per entry, with so many ranks; `adjust` may change a node's options before it starts. Aborts the test
  // program when a server does not start.
  explicit TestCluster(std::vector<int64_t> ranks_per_node, Adjust adjust = nullptr);

  int node_count() const { return static_cast<int>(servers_.size()); }
  int rank_count(int node) const { return static_cast<int>(ranks_per_node_[static_cast<size_t>(node)]); }
  const std::string& address(int node) const { return addresses_[static_cast<size_t>(node)]; }
  Server& server(int node) { return *servers_[static_cast<size_t>(node)]; }

  void Stop(int node) { servers_[static_cast<size_t>(node)].reset(); }
  // On the address it had.
  void Start(int node);

  // Every node by its own address; a test may put proxies in their places.
  ClientOptions Options() const;
  // Aborts the test program when it cannot connect.
  std::unique_ptr<Client> Connect() const { return Connect(Options()); }
  static std::unique_ptr<Client> Connect(const ClientOptions& options);

 private:
  const std::vector<int64_t> ranks_per_node_;
  const Adjust adjust_;
  std::vector<std::string> addresses_;  // "" before the first start
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace embps::testing
