// grpc.health.v1 on raw bytes, our own: the stock implementation keeps an open Watch until the end of a drain.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/call_base.h"
#include "server/rpc/health_board.h"

namespace embps {

class HealthService final
    : public grpc::health::v1::Health::WithRawCallbackMethod_Check<
          grpc::health::v1::Health::WithRawCallbackMethod_Watch<grpc::health::v1::Health::Service>> {
 public:
  HealthService(RpcCore& core, HealthBoard& board);

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* reply) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  RpcCore& core_;
  HealthBoard& board_;
  CallCounters& check_counters_;
  CallCounters& watch_counters_;
};

}  // namespace embps
