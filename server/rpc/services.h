// The services of embps.v1, every method raw: a typed callback method would answer malformed protobuf with
// UNIMPLEMENTED and no text.
#pragma once
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <vector>

#include "server/rpc/rpc_core.h"

namespace embps {

// EmbeddingService, TableService, StatsService and AdminService. start_draining: what AdminService.Drain does.
// `core` and what start_draining touches outlive the services, these outlive the gRPC server.
std::vector<std::unique_ptr<grpc::Service>> NewServices(RpcCore& core, std::function<void()> start_draining);

}  // namespace embps
