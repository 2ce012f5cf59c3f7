#include "tests/support/test_node.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "proto/base/check.h"
#include "proto/base/float16.h"
#include "proto/base/status_macros.h"
#include "proto/wire/parse_message.h"
#include "server/collective/chunking.h"
#include "server/collective/in_process.h"
#include "server/flow/rows_flow.h"
#include "server/flow/session_flow.h"
#include "server/flow/tables_flow.h"
#include "tests/support/deferred_backend.h"

namespace embps::testing {
namespace {

template <class T>
void AppendBytes(const std::vector<T>& values, std::string* out) {
  out->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

void AppendIds(const FeatureInput& feature, std::string* out) {
  if (feature.table.spec().id_type() != v1::ID_TYPE_INT32) return AppendBytes(feature.ids, out);
  AppendBytes(std::vector<int32_t>(feature.ids.begin(), feature.ids.end()), out);
}

template <class Header>
void FillFeatures(const BatchInput& batch, Header* header) {
  uint64_t ids = 0;
  for (const FeatureInput& in : batch.features) {
    v1::Feature& out = *header->add_features();
    out.set_table_uid(in.table.table_uid());
    out.set_placement_version(in.table.placement_version());
    out.set_batch_size(static_cast<uint32_t>(in.lengths.size()));
    out.set_pooling(in.pooling);
    out.set_id_type(in.table.spec().id_type());
    out.set_dim(in.table.spec().dim());
    out.set_split_bags(!in.bag_sizes.empty());
    ids += in.ids.size();
  }
  header->set_id_count(ids);
  header->set_weighted(batch.weighted);
  header->set_out_of_range_policy(batch.policy);
}

template <class Request>
void FillJagged(const BatchInput& batch, Request* request) {
  for (const FeatureInput& in : batch.features) {
    AppendBytes(in.lengths, request->mutable_lengths());
    AppendIds(in, request->mutable_ids());
    if (batch.weighted) AppendBytes(in.weights, request->mutable_weights());
    AppendBytes(in.bag_sizes, request->mutable_bag_sizes());
  }
}

// Pieces of 1, 7, 49, ... bytes, so that elements straddle them.
template <class Request, class AnyFlow>
absl::Status FeedMessage(const Request& request, AnyFlow& flow, std::shared_ptr<void> grant) {
  EMBPS_RETURN_IF_ERROR(flow.Admitted(std::move(grant)));
  const std::string bytes = request.SerializeAsString();
  std::vector<absl::string_view> pieces;
  size_t step = 1;
  for (size_t at = 0; at < bytes.size(); at += step, step = step * 7 % 4093) {
    pieces.push_back(absl::string_view(bytes).substr(at, step));
  }
  Request header;
  wire::BulkMessage message;
  EMBPS_RETURN_IF_ERROR(wire::ParseBulkMessage(pieces, &header, &message));
  EMBPS_RETURN_IF_ERROR(flow.Append(message));
  EMBPS_CHECK(flow.complete());
  return absl::OkStatus();
}

std::vector<float> Widen(const char* data, int64_t count, v1::DataType type) {
  std::vector<float> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    if (type != v1::DATA_TYPE_FP32) std::memcpy(&half, data + i * 2, 2);
    if (type == v1::DATA_TYPE_FP16) out[static_cast<size_t>(i)] = HalfToFloat(half);
    if (type == v1::DATA_TYPE_BF16) out[static_cast<size_t>(i)] = BfloatToFloat(half);
    if (type == v1::DATA_TYPE_FP32) std::memcpy(&out[static_cast<size_t>(i)], data + i * 4, 4);
  }
  return out;
}

// Puts a block's rows where they belong; they must come in order within a feature.
void AddBlock(const ReplyBlock& block, v1::DataType type, std::vector<std::vector<float>>* rows) {
  const char* at = static_cast<const char*>(block.data);
  const int64_t element_bytes = type == v1::DATA_TYPE_FP32 ? 4 : 2;
  for (const v1::Run& run : block.runs) {
    for (uint32_t i = 0; i < run.feature_count(); ++i) {
      std::vector<float>& out = (*rows)[run.first_feature() + i];
      EMBPS_CHECK(out.size() == run.row_begin() * run.dim());
      const auto count = static_cast<int64_t>(run.row_count() * run.dim());
      const std::vector<float> values = Widen(at, count, type);
      out.insert(out.end(), values.begin(), values.end());
      at += count * element_bytes;
    }
  }
  EMBPS_CHECK(at == static_cast<const char*>(block.data) + block.bytes);
}

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

}  // namespace

TestNode::TestNode(const TestNodeOptions& options) {
  const int ranks = options.ranks_per_node[static_cast<size_t>(options.node)];
  WorkerPoolOptions pool_options;
  pool_options.workers = options.workers;
  pool_ = std::make_unique<WorkerPool>(pool_options);
  kernels::cpu::CpuBackendOptions backend_options;
  backend_options.parallel_for = pool_.get();
  backend_ = kernels::cpu::NewCpuBackend(backend_options);
  if (options.deferred) backend_ = NewDeferredBackend(std::move(backend_));

  counters_ = std::make_unique<CollectiveCounters>(ranks);
  std::vector<std::unique_ptr<kernels::Stream>> streams;
  for (auto& collective : NewInProcessCollectives(ranks)) {
    if (options.chunk_bytes > 0) collective = NewChunkingCollective(std::move(collective), options.chunk_bytes);
    collectives_.push_back(
        NewCountingCollective(std::move(collective), counters_.get(), [this](const CollectiveCall& call) {
          if (collective_observer_) collective_observer_(call);
        }));
    core_.collectives.push_back(collectives_.back().get());
    streams.push_back(backend_->NewStream());
  }
  sequencer_ = std::make_unique<Sequencer>(std::move(streams));
  tickets_ = std::make_unique<TicketOffice>(*sequencer_);

  ShardStoreOptions store_options;
  store_options.cluster.ranks_per_node = options.ranks_per_node;
  store_options.node = options.node;
  store_options.rank_memory_limit_bytes = options.rank_memory_limit_bytes;
  store_options.write_observer = options.write_observer;
  store_options.stats = &stats_;
  store_options.new_uid = [this] { return next_uid_++; };
  store_ = std::make_unique<ShardStore>(*backend_, std::move(store_options));
  sessions_ = std::make_unique<SessionStore>(SessionOptions());

  core_.options.cluster_id = "test";
  core_.options.node_index = options.node;
  core_.options.ranks_per_node = options.ranks_per_node;
  core_.options.limits = DefaultLimits();
  core_.options.limits.set_max_unary_bytes(uint64_t{1} << 30);  // ReadRows of whole tables
  core_.options.frame_bytes = options.frame_bytes;
  core_.options.init_piece_bytes = options.init_piece_bytes;
  core_.options.dedupe = options.dedupe;
  EMBPS_CHECK(core_.options.Validate().ok());
  tokens_ = std::make_unique<LookupTokens>(options.token_bytes, std::chrono::milliseconds(core_.options.token_ttl_ms));
  core_.server_incarnation = 77;
  core_.started = clock_.Now();
  core_.backend = backend_.get();
  core_.sequencer = sequencer_.get();
  core_.collective_counters = counters_.get();
  core_.clock = &clock_;
  core_.store = store_.get();
  core_.sessions = sessions_.get();
  core_.stats = &stats_;
  core_.tokens = tokens_.get();
  core_.tickets = tickets_.get();
  session_ = NewSession();
}

// Lanes first: what they run uses all the rest.
TestNode::~TestNode() { sequencer_.reset(); }

// Streams complete in order, so what comes last completes last.
void TestNode::AwaitLanes() {
  class LastFlow final : public Flow {
   public:
    LastFlow(int ranks, absl::AnyInvocable<void(bool) &&> done) : ranks_left_(ranks), done_(std::move(done)) {}
    void RunRank(const LaneContext& lane) override {
      lane.stream->OnComplete([this](absl::Status) {
        if (ranks_left_.fetch_sub(1) == 1) std::move(done_)(true);
      });
    }

   private:
    std::atomic<int> ranks_left_;
    absl::AnyInvocable<void(bool) &&> done_;
  };
  Answer<bool> done;
  const auto flow = std::make_shared<LastFlow>(sequencer_->rank_count(), done.Callback());
  tickets_->TakeForRead(flow, [](uint64_t) {});
  done.Wait();
}

std::string TestNode::NewSession() {
  absl::StatusOr<v1::OpenSessionResponse> opened = OpenSession(core_, v1::OpenSessionRequest());
  EMBPS_CHECK(opened.ok());
  return opened->session_id();
}

absl::StatusOr<v1::CreateTablesResponse> TestNode::CreateTables(const v1::CreateTablesRequest& request) {
  Answer<absl::StatusOr<v1::CreateTablesResponse>> answer;
  embps::CreateTables(core_, request, answer.Callback());
  return answer.Wait();
}

absl::StatusOr<v1::Table> TestNode::CreateTable(const v1::TableSpec& spec, v1::ShardingType type,
                                                const plan::PlacementOptions& placement, uint64_t uid) {
  v1::CreateTablesRequest request;
  v1::NewTable& table = *request.add_tables();
  *table.mutable_spec() = spec;
  table.set_table_uid(uid);
  EMBPS_ASSIGN_OR_RETURN(*table.mutable_placement(), plan::MakePlacement(spec, type, store_->cluster(), placement));
  EMBPS_ASSIGN_OR_RETURN(v1::CreateTablesResponse response, CreateTables(request));
  return response.tables(0).table();
}

v1::LookupHeader TestNode::LookupHeader(const BatchInput& batch) const {
  v1::LookupHeader header;
  FillFeatures(batch, &header);
  header.set_output_dtype(batch.output_dtype);
  header.set_server_incarnation(core_.server_incarnation);
  header.set_frame_bytes(batch.frame_bytes);
  header.set_want_lookup_token(batch.want_token);
  if (batch.want_token) header.set_session_id(session_);
  return header;
}

absl::Status TestNode::Feed(LookupFlow& flow, const BatchInput& batch, std::shared_ptr<void> grant) {
  v1::LookupRequest request;
  *request.mutable_header() = LookupHeader(batch);
  FillJagged(batch, &request);
  return FeedMessage(request, flow, std::move(grant));
}

absl::StatusOr<LookupOutput> TestNode::Lookup(const BatchInput& batch) {
  EMBPS_ASSIGN_OR_RETURN(const std::shared_ptr<LookupFlow> flow, LookupFlow::Begin(core_, LookupHeader(batch)));
  EMBPS_RETURN_IF_ERROR(Feed(*flow, batch));
  EMBPS_CHECK(flow->reply_bytes() <= flow->admission_bytes());
  std::vector<int> ready;
  Answer<absl::Status> answer;
  flow->Start([&ready](int index) { ready.push_back(index); }, answer.Callback());
  EMBPS_RETURN_IF_ERROR(answer.Wait());
  EMBPS_CHECK(static_cast<int>(ready.size()) == flow->block_count());
  LookupOutput out;
  out.rows.resize(batch.features.size());
  out.blocks = flow->block_count();
  for (const int index : ready) AddBlock(flow->TakeBlock(index), batch.output_dtype, &out.rows);
  out.info = flow->reply_info();
  return out;
}

v1::MutationId TestNode::NextMutation() {
  v1::MutationId id;
  id.set_session_id(session_);
  id.set_sequence(++sequence_);
  id.set_first_incomplete(sequence_);
  return id;
}

v1::PushGradHeader TestNode::PushHeader(const PushInput& push) {
  v1::PushGradHeader header;
  FillFeatures(push.batch, &header);
  *header.mutable_mutation() = NextMutation();
  if (push.sequence != 0) header.mutable_mutation()->set_sequence(push.sequence);
  const uint64_t first = push.first_incomplete != 0 ? push.first_incomplete : header.mutation().sequence();
  header.mutable_mutation()->set_first_incomplete(first);
  header.mutable_mutation()->set_push_digest(push.digest);
  header.set_nonfinite_policy(push.nonfinite_policy);
  header.set_lookup_token(push.token);
  header.set_grad_scale(push.grad_scale);
  for (const auto& [uid, rate] : push.learning_rates) {
    v1::PushLearningRate& out = *header.add_learning_rates();
    out.set_table_uid(uid);
    out.set_learning_rate(rate);
  }
  header.set_server_incarnation(core_.server_incarnation);
  return header;
}

absl::Status TestNode::Feed(PushGradFlow& flow, const PushInput& push) {
  v1::PushGradRequest request;
  if (push.token.empty()) FillJagged(push.batch, &request);
  for (const FeatureInput& in : push.batch.features) AppendBytes(in.grads, request.mutable_grads());
  return FeedMessage(request, flow, nullptr);
}

absl::StatusOr<v1::PushGradResponse> TestNode::Push(const PushInput& push) {
  Answer<absl::StatusOr<v1::PushGradResponse>> answer;
  EMBPS_ASSIGN_OR_RETURN(const std::shared_ptr<PushGradFlow> flow,
                         PushGradFlow::Begin(core_, PushHeader(push), answer.Callback()));
  if (flow->answered()) return answer.Wait();
  EMBPS_RETURN_IF_ERROR(Feed(*flow, push));
  flow->Start();
  return answer.Wait();
}

absl::StatusOr<v1::PushGradResponse> TestNode::Push(const BatchInput& batch) {
  PushInput push;
  push.batch = batch;
  return Push(push);
}

absl::StatusOr<TableRows> TestNode::ReadRows(const v1::Table& table, const std::vector<int64_t>& ids, bool with_state) {
  v1::ReadRowsRequest request;
  request.set_table_uid(table.table_uid());
  request.set_placement_version(table.placement_version());
  request.set_with_state(with_state);
  AppendBytes(ids, request.mutable_ids());
  Answer<absl::StatusOr<v1::ReadRowsResponse>> answer;
  embps::ReadRows(core_, request, answer.Callback());
  EMBPS_ASSIGN_OR_RETURN(const v1::ReadRowsResponse response, answer.Wait());
  TableRows out;
  out.step = response.step();
  out.slices = {response.slices().begin(), response.slices().end()};
  out.rows = FloatsOf(response.rows());
  out.state0 = FloatsOf(response.state0());
  out.state1 = FloatsOf(response.state1());
  return out;
}

absl::StatusOr<v1::WriteRowsResponse> TestNode::WriteRows(const v1::Table& table, const std::vector<int64_t>& ids,
                                                          const std::vector<float>& rows) {
  v1::WriteRowsRequest request;
  *request.mutable_mutation() = NextMutation();
  request.set_table_uid(table.table_uid());
  request.set_placement_version(table.placement_version());
  AppendBytes(ids, request.mutable_ids());
  AppendBytes(rows, request.mutable_rows());
  Answer<absl::StatusOr<v1::WriteRowsResponse>> answer;
  embps::WriteRows(core_, request, answer.Callback());
  return answer.Wait();
}

absl::StatusOr<v1::UpdateTableResponse> TestNode::UpdateTable(const v1::UpdateTableRequest& request) {
  Answer<absl::StatusOr<v1::UpdateTableResponse>> answer;
  embps::UpdateTable(core_, request, answer.Callback());
  return answer.Wait();
}

v1::TableSpec SmallSpec(const std::string& name, int64_t rows, int32_t dim, float value) {
  v1::TableSpec spec;
  spec.set_name(name);
  spec.set_row_count(rows);
  spec.set_dim(dim);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_SGD);
  spec.mutable_optimizer()->set_learning_rate(1.0f);
  spec.mutable_initializer()->set_kind(v1::INITIALIZER_KIND_CONSTANT);
  spec.mutable_initializer()->set_a(value);
  return spec;
}

FeatureInput Bags(const v1::Table& table, const std::vector<std::vector<int64_t>>& bags, v1::Pooling pooling) {
  FeatureInput out;
  out.table = table;
  out.pooling = pooling;
  for (const std::vector<int64_t>& bag : bags) {
    out.lengths.push_back(static_cast<int64_t>(bag.size()));
    out.ids.insert(out.ids.end(), bag.begin(), bag.end());
  }
  return out;
}

}  // namespace embps::testing
