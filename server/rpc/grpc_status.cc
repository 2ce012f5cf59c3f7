#include "server/rpc/grpc_status.h"

#include "proto/wire/error_details.h"

namespace embps {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  wire::WireError error = wire::EncodeError(status);
  return grpc::Status(static_cast<grpc::StatusCode>(error.code), std::move(error.message), std::move(error.details));
}

}  // namespace embps
