#include "client/cpp/lookup_op.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/convert.h"
#include "client/cpp/methods.h"
#include "client/cpp/request_header.h"
#include "client/cpp/row_copy.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps::client {
namespace {

// A lookup that meets another stale plan or restart than this many gives up.
constexpr int kMaxTries = 4;

}  // namespace

LookupOp::LookupOp(Cluster* cluster, const KjtView& kjt, const LookupOptions& options, Done done)
    : cluster_(cluster),
      kjt_(kjt),
      options_(options),
      deadline_(
          cluster->DeadlineAfter(options.timeout_ms > 0 ? options.timeout_ms : cluster->options().lookup_timeout_ms)),
      done_(std::move(done)) {}

void LookupOp::Start() {
  ++tries_;
  if (absl::Status status = Prepare(); !status.ok()) return Fail(status);
  Send();
}

absl::Status LookupOp::Prepare() {
  EMBPS_ASSIGN_OR_RETURN(shape_, ShapeBatch(cluster_->catalog(), kjt_));
  const int64_t pooled_bytes = shape_.pooled.element_count * ItemBytes(options_.output_dtype);
  if (options_.pooled_output.data() != nullptr && static_cast<int64_t>(options_.pooled_output.size()) != pooled_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("pooled_output: ", options_.pooled_output.size(), " bytes, the pooled output has ", pooled_bytes));
  }
  EMBPS_ASSIGN_OR_RETURN(routed_, RouteBatch(shape_, kjt_,
                                             {options_.out_of_range_policy, /*push=*/false,
                                              /*by_token=*/options_.want_token}));
  merger_ = std::make_unique<LookupMerger>(shape_, kjt_, routed_, options_.output_dtype, options_.pooled_output,
                                           &cluster_->pool());
  return absl::OkStatus();
}

void LookupOp::Send() {
  involved_.clear();
  for (int node = 0; node < cluster_->node_count(); ++node) {
    if (!routed_.nodes[static_cast<size_t>(node)].empty()) involved_.push_back(node);
  }
  {
    MutexLock lock(&mu_);
    answers_.assign(static_cast<size_t>(cluster_->node_count()), {});
    open_calls_ = static_cast<int>(involved_.size());
  }
  if (involved_.empty()) return Deliver();
  // The last reply may end this object's work while the loop still runs.
  const std::vector<int> nodes = involved_;
  const auto self = shared_from_this();
  for (int node : nodes) SendTo(node);
}

wire::RequestEncoder LookupOp::EncoderOf(int node) const {
  const NodeIdentity identity = cluster_->node(node).identity();
  v1::LookupHeader header;
  std::vector<wire::FeatureArrays> arrays;
  for (const RoutedFeature& part : routed_.nodes[static_cast<size_t>(node)]) {
    *header.add_features() = FeatureOf(shape_, part);
    arrays.push_back(ArraysOf(part));
  }
  header.set_output_dtype(ToProto(merger_->TypeOf(node)));
  header.set_out_of_range_policy(ToProto(options_.out_of_range_policy));
  header.set_server_incarnation(identity.info.incarnation);
  header.set_weighted(kjt_.weighted);
  header.set_frame_bytes(static_cast<uint32_t>(options_.reply_frame_bytes));
  if (options_.want_token) {
    header.set_want_lookup_token(true);
    header.set_session_id(identity.session_id);
  }
  wire::RequestEncoder encoder(std::move(header), std::move(arrays));
  encoder.set_with_checksum(cluster_->options().payload_checksums);
  return encoder;
}

void LookupOp::SendTo(int node) {
  wire::RequestEncoder encoder = EncoderOf(node);
  const ServerLimits limits = cluster_->node(node).identity().info.limits;
  const int64_t reply_bytes = merger_->reply_bytes(node);
  const DataCallShape shape = ShapeOfCall(limits, encoder.payload_bytes(), reply_bytes);
  wire::ReplyOptions reply_options;
  reply_options.output_dtype = ToProto(merger_->TypeOf(node));
  reply_options.streaming_stores =
      merger_->all_direct() && reply_bytes >= cluster_->options().streaming_store_bytes && reply_bytes > 0;
  auto call = std::make_shared<LookupCall>(
      std::move(encoder), shape, merger_->LandingsOf(node), reply_options, &cluster_->pool(),
      [self = shared_from_this(), node](const absl::Status& status, const LookupReplyInfo& info) {
        self->OnNodeDone(node, status, info);
      });
  const char* method = shape.kind == CallKind::kUnary ? kLookup : kLookupStream;
  cluster_->node(node).Call({method, shape.kind, deadline_}, std::move(call));
}

void LookupOp::OnNodeDone(int node, const absl::Status& status, const LookupReplyInfo& info) {
  {
    MutexLock lock(&mu_);
    answers_[static_cast<size_t>(node)] = {status, info};
    if (--open_calls_ > 0) return;
  }
  Conclude();
}

void LookupOp::Conclude() {
  int failed = -1;
  absl::Status fault;
  {
    MutexLock lock(&mu_);
    for (int node : involved_) {
      if (answers_[static_cast<size_t>(node)].status.ok()) continue;
      failed = node;
      fault = answers_[static_cast<size_t>(node)].status;
      break;
    }
  }
  if (failed < 0) return Deliver();
  const Reason reason = ReasonOf(fault);
  const bool curable = reason == Reason::kPlanStale || reason == Reason::kTableNotFound ||
                       reason == Reason::kStateRolledBack || reason == Reason::kSessionEnded;
  if (!curable || tries_ >= kMaxTries) return Fail(fault);
  cluster_->work_thread().Post([self = shared_from_this(), failed, fault] { self->TryAgain(failed, fault); });
}

void LookupOp::TryAgain(int node, const absl::Status& status) {
  const absl::Status diagnosis = cluster_->Diagnose(node, status, deadline_);
  const Reason reason = ReasonOf(diagnosis);
  if (reason == Reason::kStateRolledBack) {
    if (cluster_->options().on_rollback == OnRollback::kRaise) return Fail(diagnosis);
    if (absl::Status recovered = cluster_->Recover(deadline_); !recovered.ok()) return Fail(recovered);
    return Start();
  }
  if (reason == Reason::kSessionEnded) return Fail(diagnosis);
  if (absl::Status fresh = cluster_->RefreshCatalog(deadline_); !fresh.ok()) return Fail(fresh);
  Start();
}

void LookupOp::Deliver() {
  LookupResult result;
  merger_->Finish(&result.pooled, &result.sequences);
  result.dropped_ids = routed_.dropped_ids;
  result.pruned_ids = routed_.pruned_ids;
  auto token = std::make_shared<LookupTokenData>();
  token->nodes.resize(static_cast<size_t>(cluster_->node_count()));
  token->policy = options_.out_of_range_policy;
  bool kept_everywhere = options_.want_token && !involved_.empty();
  {
    MutexLock lock(&mu_);
    for (int node : involved_) {
      const LookupReplyInfo& info = answers_[static_cast<size_t>(node)].info;
      result.nodes.push_back({node, info.incarnation, info.version});
      result.dropped_ids += info.dropped_ids;
      result.pruned_ids += info.pruned_ids;
      kept_everywhere &= !info.lookup_token.empty();
      token->nodes[static_cast<size_t>(node)] = {info.lookup_token, cluster_->node(node).identity().session_id};
    }
  }
  if (kept_everywhere) {
    token->batch_digest = BatchDigest(shape_, kjt_);
    result.token = std::move(token);
  }
  std::exchange(done_, nullptr)(std::move(result));
}

void LookupOp::Fail(const absl::Status& status) { std::exchange(done_, nullptr)(status); }

}  // namespace embps::client
