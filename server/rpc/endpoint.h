// The gRPC server: listening addresses and everything about it that is the same for all methods.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/rpc/listener.h"

namespace embps {

struct EndpointOptions {
  std::vector<std::string> addresses;      // HOST:PORT, port 0 = any free one, or unix:PATH
  int64_t max_message_bytes = 4 << 20;     // received; the stock limit of clients, framing included
  int64_t memory_quota_bytes = 256 << 20;  // of gRPC's own buffers: the backstop behind our admission
  int max_threads = 32;                    // that gRPC may start
  int max_streams_per_connection = 16384;
  int max_connections = 4096;  // further ones are closed at once; less if the system allows fewer open files
};

class Endpoint {
 public:
  // Serves from here on. UNAVAILABLE naming the address that could not be bound. The services must outlive the
  // endpoint.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Listen(const EndpointOptions& options,
                                                          absl::Span<grpc::Service* const> services);
  // Ends like Shutdown with no time left.
  ~Endpoint();

  // As in the options, with the real port in place of 0.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // Stops accepting, lets calls finish until `deadline`, cancels the rest and returns when every handler is done.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  Endpoint() = default;

  std::vector<std::string> addresses_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;  // null once shut down
  std::unique_ptr<AcceptLoop> accept_loop_;
};

}  // namespace embps
