#include "server/rpc/endpoint.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <utility>

#include "proto/base/status_macros.h"

namespace embps {
namespace {

constexpr int kKeepaliveMs = 60'000;         // an idle peer is asked whether it lives
constexpr int kKeepaliveTimeoutMs = 20'000;  // and is gone if it does not answer in time

void SetChannelArguments(const EndpointOptions& options, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Clients may ping as often as they like: no GOAWAY for too many pings.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

// A compressed message of some KiB may unfold to hundreds of MiB before any limit of ours sees it.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

// Reflection alone uses the synchronous API; one thread is enough for it.
void BoundThreads(const EndpointOptions& options, grpc::ServerBuilder& builder) {
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  grpc::ResourceQuota quota("embps");
  quota.Resize(static_cast<size_t>(options.memory_quota_bytes)).SetMaxThreads(options.max_threads);
  builder.SetResourceQuota(quota);
}

// First descriptor that is one too many. Some are kept back for everything that is no connection.
int FirstRefusedFd(const EndpointOptions& options) {
  constexpr int kReserve = 64;
  return std::min(options.max_connections + kReserve, std::max(kReserve, RaiseFileLimit() - kReserve));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Listen(const EndpointOptions& options,
                                                           absl::Span<grpc::Service* const> services) {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  for (grpc::Service* service : services) builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  SetChannelArguments(options, builder);
  RefuseCompression(builder);
  BoundThreads(options, builder);
  std::vector<ListenSocket> sockets;
  for (const std::string& address : options.addresses) {
    EMBPS_ASSIGN_OR_RETURN(ListenSocket socket, ListenSocket::Bind(address));
    sockets.push_back(std::move(socket));
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint);
  for (const ListenSocket& socket : sockets) endpoint->addresses_.push_back(socket.address());
  endpoint->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  endpoint->server_ = builder.BuildAndStart();
  if (endpoint->server_ == nullptr) return absl::UnavailableError("the gRPC server does not start");
  const auto hand_over = [acceptor = endpoint->acceptor_.get()](int listener_fd, int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listener_fd;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  };
  endpoint->accept_loop_ = std::make_unique<AcceptLoop>(std::move(sockets), FirstRefusedFd(options), hand_over);
  return endpoint;
}

Endpoint::~Endpoint() { Shutdown(std::chrono::system_clock::now()); }

void Endpoint::Shutdown(std::chrono::system_clock::time_point deadline) {
  if (server_ == nullptr) return;
  accept_loop_.reset();
  server_->Shutdown(deadline);
  server_->Wait();
  server_.reset();
}

}  // namespace embps
