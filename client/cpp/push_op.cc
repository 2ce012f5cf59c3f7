#include "client/cpp/push_op.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/convert.h"
#include "client/cpp/methods.h"
#include "client/cpp/request_header.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps::client {
namespace {

// A push that meets another stale plan, expired token or restart than this many gives up.
constexpr int kMaxRounds = 5;

TimePoint DeadlineOf(Cluster* cluster, int timeout_ms) {
  return cluster->DeadlineAfter(timeout_ms > 0 ? timeout_ms : cluster->options().push_timeout_ms);
}

}  // namespace

PushOp::PushOp(Cluster* cluster, const PushInput& input, int timeout_ms, Done done)
    : cluster_(cluster), input_(input), deadline_(DeadlineOf(cluster, timeout_ms)), done_(std::move(done)) {
  progress_.resize(static_cast<size_t>(cluster->node_count()));
}

PushOp::PushOp(Cluster* cluster, std::shared_ptr<PushReplay> replay, int timeout_ms, Done done)
    : cluster_(cluster),
      replay_(std::move(replay)),
      input_(replay_->data.input),
      deadline_(DeadlineOf(cluster, timeout_ms)),
      done_(std::move(done)),
      sequence_(replay_->sequence),
      digest_(replay_->digest),
      replayed_(true),
      table_uids_(replay_->table_uids),
      progress_(replay_->progress) {}

void PushOp::Start() {
  if (absl::Status status = Prepare(); !status.ok()) return Refuse(status);
  if (!replayed_) {
    digest_ = PushDigest(input_);
    sequence_ = cluster_->mutations()->Open();
  }
  cluster_->mutations()->Enter(&cluster_->scheduler(), deadline_,
                               [self = shared_from_this()](bool in_time) { self->TakeTurn(in_time); });
}

absl::Status PushOp::Prepare() {
  EMBPS_ASSIGN_OR_RETURN(shape_, ShapeBatch(cluster_->catalog(), input_.kjt));
  EMBPS_RETURN_IF_ERROR(CheckSameTables());
  EMBPS_RETURN_IF_ERROR(CheckOptions());
  plain_.reset();
  by_token_.reset();
  gradients_.reset();
  EMBPS_ASSIGN_OR_RETURN(
      GradientParts gradients,
      GradientParts::Create(shape_, input_.kjt, input_.gradients, input_.options.nonfinite_policy, &cluster_->pool()));
  gradients_.emplace(std::move(gradients));
  if (input_.options.token != nullptr) batch_digest_ = BatchDigest(shape_, input_.kjt);
  EMBPS_RETURN_IF_ERROR(RoutedFor(/*by_token=*/false).status());
  NameNodes();
  return absl::OkStatus();
}

// A table that was dropped and created again is another table: what a node applied to the old one is no part of this.
absl::Status PushOp::CheckSameTables() {
  std::vector<std::pair<std::string, uint64_t>> uids;
  for (const BatchOutput& output : shape_.outputs) {
    uids.emplace_back(output.table->label, output.table->table.table_uid());
  }
  if (table_uids_.empty())
    table_uids_ = std::move(uids);
  else if (table_uids_ != uids) {
    return MakeError(Reason::kPlanStale, "a table of this push was dropped and created again since its first attempt");
  }
  return absl::OkStatus();
}

absl::Status PushOp::CheckOptions() const {
  if (!std::isfinite(input_.options.grad_scale)) {
    return MakeError(Reason::kMalformed, absl::StrCat("grad_scale: ", input_.options.grad_scale, ", must be finite"));
  }
  for (size_t i = 0; i < input_.options.learning_rates.size(); ++i) {
    const auto& [name, rate] = input_.options.learning_rates[i];
    if (!std::isfinite(rate) || rate < 0) {
      return MakeError(Reason::kMalformed,
                       absl::StrCat("learning_rates: table ", name, ": ", rate, ", must be finite and >= 0"));
    }
    bool named = false;
    for (const BatchOutput& output : shape_.outputs) named |= output.table->table.spec().name() == name;
    if (!named) {
      return MakeError(Reason::kMalformed,
                       absl::StrCat("learning_rates: table ", name, " is not named by a key of this push"));
    }
    for (size_t other = 0; other < i; ++other) {
      if (input_.options.learning_rates[other].first != name) continue;
      return MakeError(Reason::kMalformed, absl::StrCat("learning_rates: table ", name, " is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const RoutedBatch*> PushOp::RoutedFor(bool by_token) {
  std::optional<RoutedBatch>& routed = by_token ? by_token_ : plain_;
  if (!routed.has_value()) {
    EMBPS_ASSIGN_OR_RETURN(RoutedBatch batch, RouteBatch(shape_, input_.kjt,
                                                         {input_.options.out_of_range_policy,
                                                          /*push=*/true, by_token}));
    routed.emplace(std::move(batch));
  }
  return &*routed;
}

void PushOp::NameNodes() {
  for (size_t node = 0; node < progress_.size(); ++node) {
    progress_[node].named = !plain_->nodes[node].empty();
    progress_[node].result.node = static_cast<int>(node);
    // OK only by the node's own word.
    if (progress_[node].result.attempts == 0) progress_[node].result.status = absl::FailedPreconditionError("not sent");
  }
}

void PushOp::TakeTurn(bool in_time) {
  if (!in_time) return Refuse(absl::DeadlineExceededError("the deadline passed while earlier pushes were in flight"));
  Send();
}

void PushOp::Send() {
  ++rounds_;
  std::vector<int> nodes;
  for (size_t node = 0; node < progress_.size(); ++node) {
    if (progress_[node].named && !progress_[node].result.status.ok()) nodes.push_back(static_cast<int>(node));
  }
  {
    MutexLock lock(&mu_);
    open_calls_ = static_cast<int>(nodes.size());
  }
  if (nodes.empty()) return Deliver();
  const auto self = shared_from_this();
  for (int node : nodes) SendTo(node);
}

bool PushOp::HasToken(int node) const {
  const LookupToken& token = input_.options.token;
  if (token == nullptr || token_expired_ || token->batch_digest != batch_digest_) return false;
  if (token->policy != input_.options.out_of_range_policy || token->nodes.size() != progress_.size()) return false;
  const LookupTokenData::NodeToken& own = token->nodes[static_cast<size_t>(node)];
  return !own.token.empty() && own.session_id == cluster_->node(node).identity().session_id;
}

v1::PushGradHeader PushOp::HeaderOf(int node) const {
  const NodeIdentity identity = cluster_->node(node).identity();
  v1::PushGradHeader header;
  v1::MutationId* mutation = header.mutable_mutation();
  mutation->set_session_id(identity.session_id);
  mutation->set_sequence(sequence_);
  mutation->set_first_incomplete(cluster_->mutations()->FirstOpen(sequence_));
  mutation->set_push_digest(digest_);
  header.set_server_incarnation(identity.info.incarnation);
  header.set_grad_dtype(ToProto(gradients_->type()));
  header.set_out_of_range_policy(ToProto(input_.options.out_of_range_policy));
  header.set_nonfinite_policy(ToProto(input_.options.nonfinite_policy));
  header.set_grad_scale(input_.options.grad_scale);
  header.set_weighted(input_.kjt.weighted);
  for (const auto& [name, rate] : input_.options.learning_rates) {
    for (const RoutedFeature& part : plain_->nodes[static_cast<size_t>(node)]) {
      const v1::Table& table = shape_.outputs[part.output].table->table;
      if (table.spec().name() != name) continue;
      v1::PushLearningRate* entry = header.add_learning_rates();
      entry->set_table_uid(table.table_uid());
      entry->set_learning_rate(rate);
      break;
    }
  }
  return header;
}

wire::RequestEncoder PushOp::EncoderOf(int node) {
  v1::PushGradHeader header = HeaderOf(node);
  const bool by_token = HasToken(node);
  const absl::StatusOr<const RoutedBatch*> routed = RoutedFor(by_token);
  EMBPS_CHECK(routed.ok());  // the same ids were routed in Prepare
  if (by_token) header.set_lookup_token(input_.options.token->nodes[static_cast<size_t>(node)].token);
  std::vector<wire::FeatureArrays> arrays;
  for (const RoutedFeature& part : (*routed)->nodes[static_cast<size_t>(node)]) {
    *header.add_features() = FeatureOf(shape_, part);
    arrays.push_back(ArraysOf(part));
    arrays.back().grads = gradients_->ViewOf(node, part, (*routed)->outputs[part.output]);
  }
  wire::RequestEncoder encoder(std::move(header), std::move(arrays));
  encoder.set_with_checksum(cluster_->options().payload_checksums);
  return encoder;
}

void PushOp::SendTo(int node) {
  const NodeIdentity identity = cluster_->node(node).identity();
  PushProgress& progress = progress_[static_cast<size_t>(node)];
  // What an earlier session may have applied, another session of the same server would apply again.
  if (progress.sent && progress.session_id != identity.session_id &&
      progress.incarnation == identity.info.incarnation) {
    OnNodeDone(node,
               MakeError(Reason::kSessionEnded, absl::StrCat("node ", node,
                                                             ": the session of this push has ended; "
                                                             "whether the node applied it is not known any more")),
               {}, 0);
    return;
  }
  progress.sent = true;
  progress.session_id = identity.session_id;
  progress.incarnation = identity.info.incarnation;
  wire::RequestEncoder encoder = EncoderOf(node);
  const DataCallShape shape = ShapeOfCall(identity.info.limits, encoder.payload_bytes(), 0);
  auto call = std::make_shared<PushCall>(
      std::move(encoder), shape, &cluster_->pool(),
      [self = shared_from_this(), node](const absl::Status& status, const v1::PushGradResponse& response,
                                        int attempts) { self->OnNodeDone(node, status, response, attempts); });
  const char* method = shape.kind == CallKind::kUnary ? kPushGrad : kPushGradStream;
  cluster_->node(node).Call({method, shape.kind, deadline_}, std::move(call));
}

void PushOp::OnNodeDone(int node, const absl::Status& status, const v1::PushGradResponse& response, int attempts) {
  NodePush& result = progress_[static_cast<size_t>(node)].result;  // this call's own until the last one is done
  result.status = status;
  result.attempts += attempts;
  if (status.ok()) {
    result.incarnation = response.server_incarnation();
    result.version = response.version();
    result.rows_updated = response.rows_updated();
    result.duplicate = response.duplicate();
    result.dropped_ids = response.dropped_ids();
    result.pruned_ids = response.pruned_ids();
    result.dropped_rows = response.dropped_rows();
    result.rows_overflowed = response.rows_overflowed();
    result.values_saturated = response.values_saturated();
  }
  {
    MutexLock lock(&mu_);
    if (--open_calls_ > 0) return;
  }
  Conclude();
}

void PushOp::Conclude() {
  std::vector<int> curable;
  bool incurable = false;
  for (const PushProgress& progress : progress_) {
    if (!progress.named || progress.result.status.ok()) continue;
    switch (ReasonOf(progress.result.status)) {
      case Reason::kLookupTokenExpired:
      case Reason::kPlanStale:
      case Reason::kStateRolledBack:
      case Reason::kSessionEnded:
      case Reason::kTableNotFound:
        curable.push_back(progress.result.node);
        break;
      default:
        incurable = true;
    }
  }
  if (curable.empty() || incurable || rounds_ >= kMaxRounds) return Deliver();
  cluster_->work_thread().Post([self = shared_from_this(), curable] { self->CureAndSend(curable); });
}

absl::Status PushOp::Cure(int node) {
  absl::Status& status = progress_[static_cast<size_t>(node)].result.status;
  status = cluster_->Diagnose(node, status, deadline_);
  switch (ReasonOf(status)) {
    case Reason::kLookupTokenExpired:
      token_expired_ = true;
      return absl::OkStatus();
    case Reason::kPlanStale:
      return cluster_->RefreshCatalog(deadline_);
    case Reason::kStateRolledBack:
      if (cluster_->options().on_rollback == OnRollback::kRaise) return status;
      return cluster_->Recover(deadline_);
    default:
      return status;
  }
}

void PushOp::CureAndSend(const std::vector<int>& nodes) {
  // All of them, though one may be past help: Recover reopens every session that is known to have ended.
  bool cured = true;
  for (int node : nodes) cured &= Cure(node).ok();
  if (!cured) return Deliver();
  if (absl::Status status = Prepare(); !status.ok()) {
    progress_[static_cast<size_t>(nodes[0])].result.status = status;
    return Deliver();
  }
  Send();
}

void PushOp::Deliver() {
  PushOutcome outcome;
  outcome.sequence = sequence_;
  bool acknowledged = false;
  bool open = false;
  for (const PushProgress& progress : progress_) {
    if (!progress.named) continue;
    outcome.nodes.push_back(progress.result);
    acknowledged |= progress.result.status.ok();
    open |= IsUnknownOutcome(progress.result.status);
    if (outcome.status.ok()) outcome.status = progress.result.status;
  }
  const std::shared_ptr<MutationQueue> queue = cluster_->mutations();
  // Refused by every node alike is a final answer; anything less needs the rest sent, or the question asked, again.
  const bool keep = !outcome.status.ok() && (open || acknowledged || replayed_);
  if (keep && replay_ == nullptr) {
    replay_ = std::make_shared<PushReplay>(queue, sequence_, input_);
    replay_->digest = digest_;
    replay_->table_uids = table_uids_;
  }
  if (replay_ != nullptr) {
    replay_->progress = progress_;
    replay_->busy.store(false);
  }
  if (keep) {
    outcome.replay = std::move(replay_);
  } else {
    queue->Settle(sequence_);
  }
  std::exchange(done_, nullptr)(std::move(outcome));
  queue->Leave();
}

// Nothing of this attempt was sent.
void PushOp::Refuse(const absl::Status& status) {
  PushOutcome outcome;
  outcome.status = status;
  if (replay_ != nullptr) {
    for (const PushProgress& progress : progress_) {
      if (progress.named) outcome.nodes.push_back(progress.result);
    }
    outcome.sequence = sequence_;
    replay_->busy.store(false);
    outcome.replay = std::move(replay_);
  } else if (sequence_ != 0) {
    cluster_->mutations()->Settle(sequence_);
  }
  std::exchange(done_, nullptr)(std::move(outcome));
}

}  // namespace embps::client
