// How a typed error leaves the server.
#pragma once
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace embps {

// Code, message and, for errors, the details that become the grpc-status-details-bin trailer.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace embps
