#include "server/rpc/services.h"

#include <utility>

#include "embps/v1/admin.grpc.pb.h"
#include "embps/v1/embedding.grpc.pb.h"
#include "embps/v1/stats.grpc.pb.h"
#include "embps/v1/table.grpc.pb.h"
#include "server/flow/rows_flow.h"
#include "server/flow/session_flow.h"
#include "server/flow/stats_flow.h"
#include "server/flow/tables_flow.h"
#include "server/rpc/control_call.h"
#include "server/rpc/lookup_calls.h"
#include "server/rpc/push_calls.h"

namespace embps {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Runs `handler` for one control call.
template <class Request, class Response, class Handler>
ServerUnaryReactor* Control(RpcCore& core, CallCounters& counters, WhileDraining while_draining,
                            CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* reply,
                            Handler&& handler) {
  const auto call = std::make_shared<ControlCall<Request, Response>>(core, counters, context, reply);
  if (call->Enlist(while_draining)) call->Handle(*request, std::forward<Handler>(handler));
  return call.get();
}

// A handler from a flow function that answers at once, or later through a Reply.
template <class Request, class Response>
auto Bind(RpcCore& core, absl::StatusOr<Response> (*flow)(Core&, const Request&)) {
  return [&core, flow](const Request& request, Reply<Response> done) { std::move(done)(flow(*core.flows, request)); };
}
template <class Request, class Response>
auto Bind(RpcCore& core, void (*flow)(Core&, const Request&, Reply<Response>)) {
  return [&core, flow](const Request& request, Reply<Response> done) { flow(*core.flows, request, std::move(done)); };
}

namespace raw {
using E = v1::EmbeddingService;
using Embedding = E::WithRawCallbackMethod_OpenSession<
    E::WithRawCallbackMethod_CloseSession<E::WithRawCallbackMethod_Lookup<E::WithRawCallbackMethod_LookupStream<
        E::WithRawCallbackMethod_PushGrad<E::WithRawCallbackMethod_PushGradStream<E::Service>>>>>>;
using T = v1::TableService;
using Table =
    T::WithRawCallbackMethod_CreateTables<T::WithRawCallbackMethod_GetTable<T::WithRawCallbackMethod_ListTables<
        T::WithRawCallbackMethod_DeleteTable<T::WithRawCallbackMethod_UpdateTable<T::WithRawCallbackMethod_ReadRows<
            T::WithRawCallbackMethod_WriteRows<T::WithRawCallbackMethod_GetPlan<T::Service>>>>>>>>;
using S = v1::StatsService;
using Stats = S::WithRawCallbackMethod_GetServerInfo<S::WithRawCallbackMethod_GetStats<S::Service>>;
using Admin = v1::AdminService::WithRawCallbackMethod_Drain<v1::AdminService::Service>;
}  // namespace raw

// Overrides the raw method `name`, answered by the flow function of the same name.
#define EMBPS_CONTROL_METHOD(name, while_draining)                                                                   \
  ServerUnaryReactor* name(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* reply) override {  \
    return Control<v1::name##Request, v1::name##Response>(core_, name##_counters_, while_draining, context, request, \
                                                          reply, Bind(core_, &embps::name));                         \
  }                                                                                                                  \
  CallCounters& name##_counters_ = core_.stats->call(#name)

class EmbeddingEdge final : public raw::Embedding {
 public:
  explicit EmbeddingEdge(RpcCore& core) : core_(core) {}

  ServerUnaryReactor* Lookup(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* reply) override {
    return Unary<LookupCall>(lookup_counters_, context, request, reply);
  }
  ServerUnaryReactor* PushGrad(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* reply) override {
    return Unary<PushGradCall>(push_counters_, context, request, reply);
  }
  grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* LookupStream(CallbackServerContext* context) override {
    const auto call = std::make_shared<LookupStreamCall>(core_, lookup_stream_counters_, context);
    if (call->Enlist(WhileDraining::kRefuse)) call->Receive();
    return call.get();
  }
  grpc::ServerReadReactor<ByteBuffer>* PushGradStream(CallbackServerContext* context, ByteBuffer* reply) override {
    const auto call = std::make_shared<PushGradStreamCall>(core_, push_stream_counters_, context, reply);
    if (call->Enlist(WhileDraining::kRefuse)) call->Receive();
    return call.get();
  }

 private:
  // gRPC's own request object is mutable; the call empties it once it is decoded.
  template <class Call>
  ServerUnaryReactor* Unary(CallCounters& counters, CallbackServerContext* context, const ByteBuffer* request,
                            ByteBuffer* reply) {
    const auto call = std::make_shared<Call>(core_, counters, context, reply);
    if (call->Enlist(WhileDraining::kRefuse)) call->Receive(const_cast<ByteBuffer*>(request));
    return call.get();
  }

  RpcCore& core_;
  CallCounters& lookup_counters_ = core_.stats->call("Lookup");
  CallCounters& lookup_stream_counters_ = core_.stats->call("LookupStream");
  CallCounters& push_counters_ = core_.stats->call("PushGrad");
  CallCounters& push_stream_counters_ = core_.stats->call("PushGradStream");

 public:
  EMBPS_CONTROL_METHOD(OpenSession, WhileDraining::kRefuse);
  EMBPS_CONTROL_METHOD(CloseSession, WhileDraining::kServe);
};

class TableEdge final : public raw::Table {
 public:
  explicit TableEdge(RpcCore& core) : core_(core) {}

 private:
  RpcCore& core_;

 public:
  EMBPS_CONTROL_METHOD(CreateTables, WhileDraining::kRefuse);
  EMBPS_CONTROL_METHOD(GetTable, WhileDraining::kServe);
  EMBPS_CONTROL_METHOD(ListTables, WhileDraining::kServe);
  EMBPS_CONTROL_METHOD(DeleteTable, WhileDraining::kRefuse);
  EMBPS_CONTROL_METHOD(UpdateTable, WhileDraining::kRefuse);
  EMBPS_CONTROL_METHOD(ReadRows, WhileDraining::kRefuse);
  EMBPS_CONTROL_METHOD(WriteRows, WhileDraining::kRefuse);
  EMBPS_CONTROL_METHOD(GetPlan, WhileDraining::kServe);
};

class StatsEdge final : public raw::Stats {
 public:
  explicit StatsEdge(RpcCore& core) : core_(core) {}

  ServerUnaryReactor* GetServerInfo(CallbackServerContext* context, const ByteBuffer* request,
                                    ByteBuffer* reply) override {
    const auto handler = [this](const v1::GetServerInfoRequest& parsed, Reply<v1::GetServerInfoResponse> done) {
      std::move(done)(embps::GetServerInfo(*core_.flows, parsed));
    };
    return Control<v1::GetServerInfoRequest, v1::GetServerInfoResponse>(core_, info_counters_, WhileDraining::kServe,
                                                                        context, request, reply, handler);
  }

  ServerUnaryReactor* GetStats(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* reply) override {
    const auto handler = [this](const v1::GetStatsRequest& parsed, Reply<v1::GetStatsResponse> done) {
      v1::GetStatsResponse stats = embps::GetStats(*core_.flows, parsed);
      stats.set_budget_used_bytes(static_cast<uint64_t>(core_.budget->used_bytes()));
      stats.set_budget_refused(core_.budget->refused_count());
      std::move(done)(std::move(stats));
    };
    return Control<v1::GetStatsRequest, v1::GetStatsResponse>(core_, stats_counters_, WhileDraining::kServe, context,
                                                              request, reply, handler);
  }

 private:
  RpcCore& core_;
  CallCounters& info_counters_ = core_.stats->call("GetServerInfo");
  CallCounters& stats_counters_ = core_.stats->call("GetStats");
};

class AdminEdge final : public raw::Admin {
 public:
  AdminEdge(RpcCore& core, std::function<void()> start_draining)
      : core_(core), start_draining_(std::move(start_draining)) {}

  ServerUnaryReactor* Drain(CallbackServerContext* context, const ByteBuffer* request, ByteBuffer* reply) override {
    const auto handler = [this](const v1::DrainRequest&, Reply<v1::DrainResponse> done) {
      start_draining_();
      v1::DrainResponse response;
      response.set_calls_in_flight(static_cast<uint64_t>(core_.calls->in_flight()));
      std::move(done)(response);
    };
    return Control<v1::DrainRequest, v1::DrainResponse>(core_, counters_, WhileDraining::kUncounted, context, request,
                                                        reply, handler);
  }

 private:
  RpcCore& core_;
  const std::function<void()> start_draining_;
  CallCounters& counters_ = core_.stats->call("Drain");
};

#undef EMBPS_CONTROL_METHOD

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> NewServices(RpcCore& core, std::function<void()> start_draining) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<EmbeddingEdge>(core));
  services.push_back(std::make_unique<TableEdge>(core));
  services.push_back(std::make_unique<StatsEdge>(core));
  services.push_back(std::make_unique<AdminEdge>(core, std::move(start_draining)));
  return services;
}

}  // namespace embps
