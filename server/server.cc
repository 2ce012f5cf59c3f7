#include "server/server.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu_backend.h"
#include "proto/base/status_macros.h"
#include "server/admission/byte_budget.h"
#include "server/admission/start_queue.h"
#include "server/collective/chunking.h"
#include "server/collective/counting.h"
#include "server/collective/in_process.h"
#include "server/env/executor.h"
#include "server/env/random_bytes.h"
#include "server/env/worker_pool.h"
#include "server/flow/core.h"
#include "server/flow/lookup_tokens.h"
#include "server/flow/ticket_office.h"
#include "server/rpc/byte_buffers.h"
#include "server/rpc/call_tracker.h"
#include "server/rpc/endpoint.h"
#include "server/rpc/health_board.h"
#include "server/rpc/health_calls.h"
#include "server/rpc/liveness.h"
#include "server/rpc/rpc_core.h"
#include "server/rpc/services.h"
#include "server/rpc/stall_watch.h"
#include "server/rpc/ticker.h"
#include "server/sequencer/sequencer.h"
#include "server/session/session_store.h"
#include "server/stats/stats.h"
#include "server/table/shard_store.h"

namespace embps {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMaxMessageBytes = int64_t{4} << 20;  // the stock limit of gRPC clients
constexpr int kExecutorThreads = 2;
constexpr milliseconds kLongestTick(200);
constexpr milliseconds kLastWords(1000);  // for the ends of health watches, after a drain

// How budget_bytes is divided. Most of it admits calls; streams that wait in line hold their first frame outside of
// that, and gRPC holds what it has received before a handler sees it.
int64_t AdmissionBytes(const ServerConfig& config) { return config.budget_bytes / 16 * 12; }
int64_t WaitingStreams(const ServerConfig& config) {
  return std::min(config.max_waiting_calls, std::max<int64_t>(1, config.budget_bytes / 16 / config.max_frame_bytes));
}
int64_t GrpcQuotaBytes(const ServerConfig& config) { return config.budget_bytes / 16 * 3; }

absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(const ServerConfig& config,
                                                             kernels::ParallelFor* workers) {
  kernels::cpu::CpuBackendOptions options;
  options.parallel_for = workers;
  options.scratch_retained_bytes = std::min(options.scratch_retained_bytes, config.budget_bytes);
  EMBPS_RETURN_IF_ERROR(options.Validate());
  return kernels::cpu::NewCpuBackend(options);
}

std::vector<int> RanksPerNode(const ServerConfig& config) {
  return {config.ranks_per_node.begin(), config.ranks_per_node.end()};
}

v1::Limits AdvertisedLimits(const ServerConfig& config) {
  v1::Limits limits;
  limits.set_max_unary_bytes(static_cast<uint64_t>(config.max_unary_bytes));
  limits.set_max_frame_bytes(static_cast<uint64_t>(config.max_frame_bytes));
  limits.set_max_message_bytes(static_cast<uint64_t>(kMaxMessageBytes));
  limits.set_budget_bytes(static_cast<uint64_t>(config.budget_bytes));
  limits.set_max_ids(static_cast<uint64_t>(config.max_ids));
  limits.set_max_bags(static_cast<uint64_t>(config.max_bags));
  limits.set_max_features(static_cast<uint32_t>(config.max_features));
  limits.set_stall_timeout_ms(static_cast<uint32_t>(config.stall_timeout_ms));
  return limits;
}

FlowOptions FlowOptionsOf(const ServerOptions& options) {
  const ServerConfig& config = options.config;
  FlowOptions flow;
  flow.version = EMBPS_VERSION;
  flow.cluster_id = config.cluster_id;
  flow.node_index = static_cast<int>(config.node_index);
  flow.ranks_per_node = RanksPerNode(config);
  flow.limits = AdvertisedLimits(config);
  flow.frame_bytes = std::min(flow.frame_bytes, config.max_frame_bytes);
  flow.session_window_entries = static_cast<uint32_t>(config.session_window_entries);
  flow.token_bytes = config.lookup_token_bytes;
  flow.token_ttl_ms = config.lookup_token_timeout_ms;
  flow.memory_limit_bytes = config.table_memory_limit_bytes;
  flow.dedupe = options.dedupe;
  return flow;
}

SessionOptions SessionOptionsOf(const ServerConfig& config) {
  SessionOptions options;
  options.window_entries = config.session_window_entries;
  options.window_bytes = config.session_window_bytes;
  options.outcome_reserve_bytes = std::min(options.outcome_reserve_bytes, config.session_window_bytes);
  options.max_sessions = config.max_sessions;
  options.idle_expiry = milliseconds(config.session_idle_timeout_ms);
  return options;
}

ShardStoreOptions StoreOptionsOf(const ServerConfig& config, Stats* stats) {
  ShardStoreOptions options;
  options.cluster.ranks_per_node = RanksPerNode(config);
  options.node = static_cast<int>(config.node_index);
  options.rank_memory_limit_bytes = config.table_memory_limit_bytes;
  options.stats = stats;
  options.new_uid = RandomNonzero64;
  return options;
}

EndpointOptions EndpointOptionsOf(const ServerConfig& config) {
  EndpointOptions options;
  options.addresses = config.listen;
  options.max_message_bytes = kMaxMessageBytes;
  options.memory_quota_bytes = GrpcQuotaBytes(config);
  options.max_streams_per_connection = static_cast<int>(config.max_streams_per_connection);
  options.max_connections = static_cast<int>(config.max_connections);
  return options;
}

// Parts in the order in which they are made; they go in the reverse order, once nobody calls any more.
class ServerImpl final : public Server {
 public:
  explicit ServerImpl(ServerOptions options)
      : options_(std::move(options)),
        config_(options_.config),
        clock_(options_.clock != nullptr ? *options_.clock : Clock::Real()),
        logger_(options_.logger != nullptr ? *options_.logger : DiscardingLogger()),
        workers_({.workers = static_cast<int>(config_.workers)}),
        collective_counters_(config_.rank_count()),
        sessions_(SessionOptionsOf(config_)),
        tokens_(config_.lookup_token_bytes, milliseconds(config_.lookup_token_timeout_ms)),
        stall_watch_(milliseconds(config_.stall_timeout_ms)),
        budget_(AdmissionBytes(config_), WaitingStreams(config_), PostToExecutor()),
        start_queue_(config_.max_running_calls, config_.max_waiting_calls, clock_, PostToExecutor()),
        executor_(kExecutorThreads),
        liveness_(milliseconds(config_.liveness_timeout_ms), clock_.Now()) {}

  ~ServerImpl() override {
    board_.EndWatches();
    calls_.StartDraining();
    ticker_.reset();
    // After a drain only watches of the health are left: their last words go out before connections close.
    if (endpoint_ != nullptr)
      endpoint_->Shutdown(std::chrono::system_clock::now() + (drained_ ? kLastWords : milliseconds(0)));
    endpoint_.reset();
    slices_.WaitIdle();  // gRPC may let go of a reply after its call
  }

  absl::Status Begin();

  const std::vector<std::string>& addresses() const override { return endpoint_->addresses(); }
  uint64_t incarnation() const override { return flows_.server_incarnation; }
  void StartDraining() override {
    board_.StartDraining();
    calls_.StartDraining();
  }
  absl::Status Drain(milliseconds timeout) override;
  Load load() const override;

 private:
  PostFunction PostToExecutor() {
    return [this](absl::AnyInvocable<void() &&> task) { executor_.Post(std::move(task)); };
  }
  void ConnectRanks();
  void FillCores();
  absl::Status Serve();
  void Tick();
  std::string WhatIsLeft() const;

  const ServerOptions options_;
  const ServerConfig& config_;
  const Clock& clock_;
  const Logger& logger_;

  WorkerPool workers_;
  std::unique_ptr<kernels::Backend> backend_;
  Stats stats_;
  CollectiveCounters collective_counters_;
  std::vector<std::unique_ptr<Collective>> collectives_;  // [W]
  std::unique_ptr<ShardStore> store_;
  SessionStore sessions_;
  LookupTokens tokens_;

  Core flows_;
  RpcCore rpc_;
  CallTracker calls_;
  StallWatch stall_watch_;
  SliceLedger slices_;
  HealthBoard board_;
  ByteBudget budget_;
  StartQueue start_queue_;
  Executor executor_;  // its tasks hold grants and slots
  LivenessProbe liveness_;

  // What makes calls and runs flows; goes first.
  std::unique_ptr<Sequencer> sequencer_;
  std::unique_ptr<TicketOffice> tickets_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ticker> ticker_;
  bool drained_ = false;
};

absl::Status ServerImpl::Begin() {
  const auto new_backend = options_.new_backend ? options_.new_backend : NewBackend;
  EMBPS_ASSIGN_OR_RETURN(backend_, new_backend(config_, &workers_));
  store_ = std::make_unique<ShardStore>(*backend_, StoreOptionsOf(config_, &stats_));
  ConnectRanks();
  FillCores();
  EMBPS_RETURN_IF_ERROR(flows_.options.Validate());
  EMBPS_RETURN_IF_ERROR(Serve());
  const auto period = std::min(kLongestTick, milliseconds(std::max<int64_t>(1, config_.stall_timeout_ms / 4)));
  ticker_ = std::make_unique<Ticker>(period, [this] { Tick(); });
  board_.SetReady(true);
  logger_.Info("serving", {{"addresses", absl::StrJoin(addresses(), ",")},
                           {"cluster_id", config_.cluster_id},
                           {"node_index", config_.node_index},
                           {"ranks", config_.rank_count()},
                           {"workers", workers_.worker_count()},
                           {"backend", std::string(backend_->name())},
                           {"dispatch_target", backend_->dispatch_target()},
                           {"incarnation", incarnation()}});
  return absl::OkStatus();
}

// Counted outside, so that statistics say what ranks exchange, not how it was cut.
void ServerImpl::ConnectRanks() {
  std::vector<std::unique_ptr<kernels::Stream>> streams;
  for (auto& inner : NewInProcessCollectives(config_.rank_count(), {.step_timeout_ms = config_.step_timeout_ms})) {
    auto rank = NewCountingCollective(NewChunkingCollective(std::move(inner), config_.collective_chunk_bytes),
                                      &collective_counters_);
    collectives_.push_back(options_.decorate_collective ? options_.decorate_collective(std::move(rank))
                                                        : std::move(rank));
    streams.push_back(backend_->NewStream());
  }
  sequencer_ = std::make_unique<Sequencer>(std::move(streams));
  tickets_ = std::make_unique<TicketOffice>(*sequencer_);
}

void ServerImpl::FillCores() {
  flows_.options = FlowOptionsOf(options_);
  flows_.server_incarnation = RandomNonzero64();
  flows_.started = clock_.Now();
  flows_.backend = backend_.get();
  flows_.sequencer = sequencer_.get();
  for (const auto& collective : collectives_) flows_.collectives.push_back(collective.get());
  flows_.collective_counters = &collective_counters_;
  flows_.clock = &clock_;
  flows_.store = store_.get();
  flows_.sessions = &sessions_;
  flows_.stats = &stats_;
  flows_.tokens = &tokens_;
  flows_.tickets = tickets_.get();

  rpc_.flows = &flows_;
  rpc_.clock = &clock_;
  rpc_.budget = &budget_;
  rpc_.start_queue = &start_queue_;
  rpc_.stall_watch = &stall_watch_;
  rpc_.calls = &calls_;
  rpc_.slices = &slices_;
  rpc_.stats = &stats_;
  rpc_.max_unary_bytes = config_.max_unary_bytes;
  rpc_.max_frame_bytes = config_.max_frame_bytes;
}

absl::Status ServerImpl::Serve() {
  services_ = NewServices(rpc_, [this] { StartDraining(); });
  services_.push_back(std::make_unique<HealthService>(rpc_, board_));
  std::vector<grpc::Service*> services;
  for (const auto& service : services_) services.push_back(service.get());
  EMBPS_ASSIGN_OR_RETURN(endpoint_, Endpoint::Listen(EndpointOptionsOf(config_), services));
  return absl::OkStatus();
}

void ServerImpl::Tick() {
  const Clock::TimePoint now = clock_.Now();
  stall_watch_.Tick(now);
  const uint64_t finished = sequencer_->finished_count();  // first, so that it is never above what was submitted
  board_.SetAlive(liveness_.Alive(sequencer_->submitted_count(), finished, now));
}

absl::Status ServerImpl::Drain(milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  board_.EndWatches();
  calls_.StartDraining();
  logger_.Info("draining", {{"calls_in_flight", calls_.in_flight()}, {"timeout_ms", timeout.count()}});
  if (calls_.WaitIdle(deadline) && start_queue_.WaitIdle(deadline)) {
    logger_.Info("drained");
    drained_ = true;
    return absl::OkStatus();
  }
  const std::string left = WhatIsLeft();
  logger_.Error("drain_timeout", {{"waited_for", left}});
  return absl::DeadlineExceededError(absl::StrCat("not drained within ", timeout.count(), " ms: ", left));
}

std::string ServerImpl::WhatIsLeft() const {
  const uint64_t finished = sequencer_->finished_count();
  return absl::StrCat(calls_.in_flight(), " calls in flight, ", start_queue_.running_count(), " of them running, ",
                      start_queue_.waiting_count(), " waiting for a ticket; ", sequencer_->submitted_count() - finished,
                      " tickets not finished");
}

Server::Load ServerImpl::load() const {
  Load load;
  load.calls_in_flight = calls_.in_flight();
  load.running = start_queue_.running_count();
  load.waiting = start_queue_.waiting_count();
  load.budget_used_bytes = budget_.used_bytes();
  load.budget_peak_bytes = budget_.peak_bytes();
  load.budget_limit_bytes = budget_.limit_bytes();
  return load;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  EMBPS_RETURN_IF_ERROR(options.config.Validate());
  auto server = std::make_unique<ServerImpl>(std::move(options));
  EMBPS_RETURN_IF_ERROR(server->Begin());
  return server;
}

}  // namespace embps
