#include "server/rpc/endpoint.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace embps {
namespace {

constexpr int kKeepaliveMs = 60'000;         // an idle peer is asked whether it lives
constexpr int kKeepaliveTimeoutMs = 20'000;  // and is gone if it does not answer in time

void SetChannelArguments(const EndpointOptions& options, grpc::ServerBuilder& builder) {
  // A second process on our port would silently take half of the clients.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
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

std::string BoundAddress(const std::string& address, int port) {
  if (absl::StartsWith(address, "unix:")) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
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
  std::vector<int> ports(options.addresses.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(options.addresses[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint);
  endpoint->server_ = builder.BuildAndStart();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i] == 0) return absl::UnavailableError(absl::StrCat("cannot listen on ", options.addresses[i]));
    endpoint->addresses_.push_back(BoundAddress(options.addresses[i], ports[i]));
  }
  if (endpoint->server_ == nullptr) return absl::UnavailableError("the gRPC server does not start");
  return endpoint;
}

Endpoint::~Endpoint() { Shutdown(std::chrono::system_clock::now()); }

void Endpoint::Shutdown(std::chrono::system_clock::time_point deadline) {
  if (server_ == nullptr) return;
  server_->Shutdown(deadline);
  server_->Wait();
  server_.reset();
}

}  // namespace embps
