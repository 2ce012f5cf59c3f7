// Probes of one endpoint, without a client.
#include <memory>

#include "client/cpp/control_call.h"
#include "client/cpp/convert.h"
#include "client/cpp/grpc_transport.h"
#include "client/cpp/methods.h"
#include "embps/stats.h"
#include "embps/v1/stats.pb.h"
#include "grpc/health/v1/health.pb.h"

namespace embps {
inline namespace sdk {
namespace {

// One channel to one endpoint for one question; whoever asks wants to hear of a refused connection at once.
template <class Response>
absl::StatusOr<Response> Ask(const std::string& endpoint, const std::string& method,
                             const google::protobuf::Message& request, int timeout_ms) {
  client::ThreadScheduler scheduler;
  client::GrpcOptions options;
  options.channels = 1;
  RetryPolicy once;
  once.max_attempts = 1;
  std::shared_ptr<client::Transport> transport =
      client::NewGrpcTransportFactory(options, &scheduler)->Connect(endpoint);
  client::Node node(0, std::move(transport), &scheduler, once);
  return client::CallControl<Response>(node, method, request, scheduler.Now() + std::chrono::milliseconds(timeout_ms));
}

}  // namespace

NodeHealth ProbeHealth(const std::string& endpoint, absl::string_view service, int timeout_ms) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(service));
  NodeHealth health;
  health.endpoint = endpoint;
  const auto response = Ask<grpc::health::v1::HealthCheckResponse>(endpoint, client::kHealthCheck, request, timeout_ms);
  if (!response.ok()) {
    health.status = response.status();
    return health;
  }
  const bool serving = response->status() == grpc::health::v1::HealthCheckResponse::SERVING;
  health.state = serving ? HealthState::kServing : HealthState::kNotServing;
  return health;
}

absl::StatusOr<ServerInfo> ProbeServer(const std::string& endpoint, int timeout_ms) {
  const auto response =
      Ask<v1::GetServerInfoResponse>(endpoint, client::kGetServerInfo, v1::GetServerInfoRequest(), timeout_ms);
  if (!response.ok()) return response.status();
  ServerInfo info = client::FromProto(*response);
  info.endpoint = endpoint;
  return info;
}

}  // namespace sdk
}  // namespace embps
