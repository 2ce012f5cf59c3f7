#include "server/flow/push_grad_flow.h"

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/request_checks.h"
#include "server/env/clock.h"
#include "server/flow/host_memory.h"
#include "server/flow/lookup_tokens.h"
#include "server/flow/mutation.h"
#include "server/flow/push_ranks.h"
#include "server/flow/table_set.h"
#include "server/flow/ticket_office.h"

namespace embps {
namespace {

class PushGradFlowImpl final : public PushGradFlow, public std::enable_shared_from_this<PushGradFlowImpl> {
 public:
  explicit PushGradFlowImpl(Core& core) : core_(core), decoder_(DecodeLimitsOf(core.options.limits)) {}

  absl::Status Claim(const v1::PushGradHeader& header, Done done);
  absl::Status ReadHeader(const v1::PushGradHeader& header);

  bool answered() const override { return !mutation_->fresh(); }
  int64_t admission_bytes() const override { return admission_bytes_; }
  absl::Status Admitted(std::shared_ptr<void> grant) override;
  absl::Status Append(const wire::BulkMessage& frame) override;
  bool complete() const override { return batch_ != nullptr; }
  absl::Status CheckComplete() const override { return decoder_.CheckComplete(); }
  void Fail(const absl::Status& status) override { mutation_->Failed(status); }
  void Start() override;

  void RunRank(const LaneContext& lane) override;

 private:
  absl::Status FindTables(const v1::PushGradHeader& header);
  absl::Status DecodeHeader(const v1::PushGradHeader& header);
  absl::Status AppendFrame(const wire::BulkMessage& frame);
  absl::Status Prepare();
  void TakeTicket();
  // Settles the claim by a failure and hands it on.
  absl::Status Settled(absl::Status status);
  void RankDone(const absl::Status& status);
  void Finish();
  v1::PushGradResponse Response();

  Core& core_;
  // The reply of this call, also of one that joined another.
  std::shared_ptr<Done> done_;
  std::optional<Mutation> mutation_;
  TableSet tables_;
  wire::BatchDecoder decoder_;
  std::string token_;
  std::shared_ptr<const KeptLookup> kept_;
  float grad_scale_ = 1.0f;
  std::vector<std::optional<float>> learning_rates_;  // [T] of this push alone
  int64_t admission_bytes_ = 0;

  // From Admitted on.
  std::shared_ptr<void> grant_;
  // From complete() on.
  std::shared_ptr<wire::DecodedBatch> batch_;
  // From Start on.
  std::vector<GradScale> scales_;  // [T]
  std::unique_ptr<PushRanks> ranks_;
  uint64_t version_ = 0;
  std::vector<TableStep> steps_;  // [T]
  std::atomic<int> ranks_running_{0};
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // the first error of any rank
};

// Dedupe comes before everything else but the incarnation: after a restart there is no session to find.
absl::Status PushGradFlowImpl::Claim(const v1::PushGradHeader& header, Done done) {
  EMBPS_RETURN_IF_ERROR(CheckIncarnation(core_, header.server_incarnation(), /*any_is_zero=*/false));
  done_ = std::make_shared<Done>(std::move(done));
  EMBPS_ASSIGN_OR_RETURN(Mutation mutation,
                         Mutation::Begin(core_, header.mutation(), [done = done_](absl::StatusOr<std::string> reply) {
                           if (!reply.ok()) return std::move(*done)(reply.status());
                           v1::PushGradResponse response;
                           response.ParseFromString(*reply);
                           response.set_duplicate(true);
                           std::move (*done)(std::move(response));
                         }));
  mutation_ = std::move(mutation);
  return absl::OkStatus();
}

absl::Status PushGradFlowImpl::ReadHeader(const v1::PushGradHeader& header) {
  EMBPS_RETURN_IF_ERROR(Settled(FindTables(header)));
  if (header.has_grad_scale()) grad_scale_ = header.grad_scale();
  learning_rates_.resize(static_cast<size_t>(tables_.size()));
  for (const v1::PushLearningRate& rate : header.learning_rates()) {
    for (int32_t t = 0; t < tables_.size(); ++t) {
      if (tables_[t].uid() == rate.table_uid()) learning_rates_[static_cast<size_t>(t)] = rate.learning_rate();
    }
  }
  return absl::OkStatus();
}

absl::Status PushGradFlowImpl::FindTables(const v1::PushGradHeader& header) {
  EMBPS_RETURN_IF_ERROR(tables_.Find(*core_.store, header.features()));
  // A token of another size is no token at all; the decoder refuses it.
  if (token_ = header.lookup_token(); token_.size() == wire::kLookupTokenBytes) {
    kept_ = core_.tokens->Find(token_, header.mutation().session_id(), core_.clock->Now());
    if (kept_ == nullptr) {
      return MakeError(Reason::kLookupTokenExpired, "lookup_token: not kept any more; send the ids with the push");
    }
  }
  if (!tables_.any_narrow()) return DecodeHeader(header);
  v1::PushGradHeader narrow = header;
  EMBPS_RETURN_IF_ERROR(tables_.Narrow(*narrow.mutable_features()));
  return DecodeHeader(narrow);
}

absl::Status PushGradFlowImpl::DecodeHeader(const v1::PushGradHeader& header) {
  EMBPS_RETURN_IF_ERROR(decoder_.Begin(header, tables_.resolver(), kept_ == nullptr ? nullptr : kept_->batch));
  tables_.Order(decoder_.layout());
  admission_bytes_ = decoder_.memory_bytes() + PushRanks::BytesBound(*core_.backend, decoder_.layout(), tables_,
                                                                     header.weighted(), core_.options.rank_count());
  return absl::OkStatus();
}

absl::Status PushGradFlowImpl::Settled(absl::Status status) {
  if (!status.ok()) mutation_->Failed(status);
  return status;
}

absl::Status PushGradFlowImpl::Admitted(std::shared_ptr<void> grant) {
  grant_ = std::move(grant);
  return Settled(decoder_.Allocate(HostMemory(*core_.backend)));
}

absl::Status PushGradFlowImpl::Append(const wire::BulkMessage& frame) { return Settled(AppendFrame(frame)); }

absl::Status PushGradFlowImpl::AppendFrame(const wire::BulkMessage& frame) {
  if (complete()) {
    if (frame.payload_bytes() == 0) return absl::OkStatus();
    return MakeError(Reason::kBadJaggedLayout,
                     absl::StrCat("frame: ", frame.payload_bytes(), " bytes after the request was complete"));
  }
  EMBPS_RETURN_IF_ERROR(decoder_.Append(frame));
  if (!decoder_.complete()) return absl::OkStatus();
  EMBPS_ASSIGN_OR_RETURN(batch_, decoder_.Finish());
  return absl::OkStatus();
}

void PushGradFlowImpl::Start() {
  EMBPS_CHECK(complete() && mutation_->fresh());
  if (absl::Status status = Settled(Prepare()); !status.ok()) return std::move(*done_)(std::move(status));
  if (!token_.empty()) core_.tokens->Drop(token_);
  TakeTicket();
}

absl::Status PushGradFlowImpl::Prepare() {
  for (int32_t t = 0; t < tables_.size(); ++t) {
    scales_.push_back({grad_scale_, tables_[t].spec().optimizer().max_gradient()});
  }
  // Rows or marked ids that were taken out leave the batch with ids of its own.
  if (batch_->kept == nullptr) kept_ = nullptr;
  ranks_ = std::make_unique<PushRanks>(*core_.backend, *batch_, tables_, core_.options.rank_count(), scales_,
                                       core_.options.rank_count() == 1 ? kept_.get() : nullptr);
  return ranks_->status();
}

// Steps advance, and rates are read, in ticket order: every table that is named, with or without ids.
void PushGradFlowImpl::TakeTicket() {
  steps_.resize(static_cast<size_t>(tables_.size()));
  ranks_running_ = core_.options.rank_count();
  core_.tickets->TakeForPush(shared_from_this(), [this](uint64_t version) {
    version_ = version;
    for (int32_t t = 0; t < tables_.size(); ++t) {
      Table& table = tables_[t];
      table.set_step(table.step() + 1);
      steps_[static_cast<size_t>(t)] = {learning_rates_[static_cast<size_t>(t)].value_or(table.learning_rate()),
                                        table.step()};
    }
  });
}

void PushGradFlowImpl::RunRank(const LaneContext& lane) {
  ranks_->Run(lane.rank, *core_.backend, *core_.collectives[static_cast<size_t>(lane.rank)], steps_,
              core_.store->write_observer(), *lane.stream);
  lane.stream->OnComplete([self = shared_from_this()](absl::Status status) { self->RankDone(status); });
}

void PushGradFlowImpl::RankDone(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    status_.Update(status);
  }
  if (ranks_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish();
}

void PushGradFlowImpl::Finish() {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = status_;
  }
  if (!status.ok()) {
    mutation_->FailedAfterTicket(status);
    return std::move(*done_)(std::move(status));
  }
  v1::PushGradResponse response = Response();
  ranks_ = nullptr;
  batch_ = nullptr;
  kept_ = nullptr;
  mutation_->Applied(response.SerializeAsString());
  std::move (*done_)(std::move(response));
}

v1::PushGradResponse PushGradFlowImpl::Response() {
  v1::PushGradResponse response;
  kernels::UpdateCounts sum;
  for (int32_t t = 0; t < tables_.size(); ++t) {
    const kernels::UpdateCounts counts = ranks_->CountsOf(t);
    sum.rows_updated += counts.rows_updated;
    sum.rows_overflowed += counts.rows_overflowed;
    sum.values_saturated += counts.values_saturated;
    const wire::TableSlice& slice = batch_->tables[static_cast<size_t>(t)];
    TableCounters& counters = tables_[t].counters();
    counters.pushes.Add(1);
    counters.rows_updated.Add(static_cast<uint64_t>(counts.rows_updated));
    counters.rows_overflowed.Add(static_cast<uint64_t>(counts.rows_overflowed));
    counters.values_saturated.Add(static_cast<uint64_t>(counts.values_saturated));
    counters.dropped_ids.Add(static_cast<uint64_t>(slice.dropped_ids));
    counters.pruned_ids.Add(static_cast<uint64_t>(slice.pruned_ids));
    counters.dropped_rows.Add(static_cast<uint64_t>(slice.dropped_rows));
  }
  ranks_->CountIdsServed();
  response.set_server_incarnation(core_.server_incarnation);
  response.set_version(version_);
  response.set_rows_updated(static_cast<uint64_t>(sum.rows_updated));
  response.set_rows_overflowed(static_cast<uint64_t>(sum.rows_overflowed));
  response.set_values_saturated(static_cast<uint64_t>(sum.values_saturated));
  response.set_dropped_ids(static_cast<uint64_t>(batch_->dropped_ids));
  response.set_pruned_ids(static_cast<uint64_t>(batch_->pruned_ids));
  response.set_dropped_rows(static_cast<uint64_t>(batch_->dropped_rows));
  return response;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PushGradFlow>> PushGradFlow::Begin(Core& core, const v1::PushGradHeader& header,
                                                                  Done done) {
  auto flow = std::make_shared<PushGradFlowImpl>(core);
  EMBPS_RETURN_IF_ERROR(flow->Claim(header, std::move(done)));
  if (flow->answered()) return flow;
  EMBPS_RETURN_IF_ERROR(flow->ReadHeader(header));
  return flow;
}

}  // namespace embps
