#include "server/flow/lookup_flow.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/request_checks.h"
#include "server/env/clock.h"
#include "server/flow/host_memory.h"
#include "server/flow/lookup_ranks.h"
#include "server/flow/lookup_tokens.h"
#include "server/flow/mutation.h"
#include "server/flow/table_set.h"
#include "server/flow/ticket_office.h"
#include "server/output/block_plan.h"
#include "server/session/session_store.h"
#include "server/table/table_kernels.h"

namespace embps {
namespace {

class LookupFlowImpl final : public LookupFlow, public std::enable_shared_from_this<LookupFlowImpl> {
 public:
  explicit LookupFlowImpl(Core& core) : core_(core), decoder_(DecodeLimitsOf(core.options.limits)) {}

  absl::Status ReadHeader(const v1::LookupHeader& header);

  int64_t admission_bytes() const override { return admission_bytes_; }
  absl::Status Admitted(std::shared_ptr<void> grant) override;
  absl::Status Append(const wire::BulkMessage& frame) override;
  bool complete() const override { return batch_ != nullptr; }
  absl::Status CheckComplete() const override { return decoder_.CheckComplete(); }
  int block_count() const override { return static_cast<int>(blocks_.size()); }
  int64_t reply_bytes() const override;
  void Start(BlockReady block_ready, Done done) override;
  ReplyBlock TakeBlock(int index) override;
  LookupReplyInfo reply_info() const override { return info_; }
  void Cancel() override { cancelled_.store(true, std::memory_order_relaxed); }

  void RunRank(const LaneContext& lane) override;

 private:
  struct Block {
    BlockPlan plan;
    std::shared_ptr<void> memory;  // from when it is computed until it is taken
    char* data = nullptr;
  };
  absl::Status DecodeHeader(const v1::LookupHeader& header);
  void PlanReply();
  absl::Status Prepare();
  absl::Status PrepareDirect();
  absl::Status PrepareRanks();
  void KeepForPush();
  void PlanSort(KeptLookup& kept);
  void RunDirect(const LaneContext& lane);
  absl::Status ComputeBlock(Block& block, kernels::Stream& stream);
  void SortForPush(kernels::Stream& stream);
  void BlockDone(int index, const absl::Status& status);
  void RankDone(const absl::Status& status);
  void Finish();
  void Count() const;

  Core& core_;
  TableSet tables_;
  wire::BatchDecoder decoder_;
  kernels::ElementType type_ = kernels::ElementType::kFp32;
  int64_t block_bytes_ = 0;
  bool want_token_ = false;
  std::string session_id_;
  int64_t admission_bytes_ = 0;

  // From Admitted on.
  std::shared_ptr<void> grant_;
  // From complete() on.
  std::shared_ptr<wire::DecodedBatch> batch_;
  std::vector<Block> blocks_;
  // From Start on.
  LookupReplyInfo info_;
  BlockReady block_ready_;
  Done done_;
  std::atomic<bool> cancelled_{false};
  std::shared_ptr<KeptLookup> direct_;  // one rank: what its lane looks up, maybe also kept under the token
  std::vector<kernels::GradSortTask> sort_tasks_;
  std::shared_ptr<ScratchArena> sort_memory_;
  std::unique_ptr<LookupRanks> ranks_;  // several ranks
  std::atomic<int> ranks_running_{0};
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // the first error of any rank
};

absl::Status LookupFlowImpl::ReadHeader(const v1::LookupHeader& header) {
  EMBPS_RETURN_IF_ERROR(CheckIncarnation(core_, header.server_incarnation(), /*any_is_zero=*/true));
  EMBPS_RETURN_IF_ERROR(tables_.Find(*core_.store, header.features()));
  if (!tables_.any_narrow()) {
    EMBPS_RETURN_IF_ERROR(DecodeHeader(header));
  } else {
    v1::LookupHeader narrow = header;
    EMBPS_RETURN_IF_ERROR(tables_.Narrow(*narrow.mutable_features()));
    EMBPS_RETURN_IF_ERROR(DecodeHeader(narrow));
  }
  type_ = KernelElementType(wire::DataTypeOrDefault(header.output_dtype()));
  for (const wire::FeatureSlice& feature : decoder_.layout().features) {
    const Table& table = tables_[feature.table];
    if (feature.pooled() && table.layout().rows_split_over_nodes() && type_ != kernels::ElementType::kFp32) {
      return MakeError(Reason::kDtypeUnsupported, absl::StrCat("output_dtype: partial sums of table ", table.name(),
                                                               ", whose rows lie on several nodes, are FP32 only"));
    }
  }
  if (header.want_lookup_token()) {
    EMBPS_RETURN_IF_ERROR(core_.sessions->Touch(header.session_id(), core_.clock->Now()));
    want_token_ = true;
    session_id_ = header.session_id();
  }
  block_bytes_ = BlockBytes(header.frame_bytes(), core_.options.frame_bytes,
                            static_cast<int64_t>(core_.options.limits.max_frame_bytes()));
  return absl::OkStatus();
}

absl::Status LookupFlowImpl::DecodeHeader(const v1::LookupHeader& header) {
  EMBPS_RETURN_IF_ERROR(decoder_.Begin(header, tables_.resolver()));
  tables_.Order(decoder_.layout());
  const int64_t reply = decoder_.output_elements() *
                        kernels::ElementBytes(KernelElementType(wire::DataTypeOrDefault(header.output_dtype())));
  admission_bytes_ = decoder_.memory_bytes() + reply;
  if (core_.options.rank_count() > 1) {
    admission_bytes_ += LookupRanks::BytesBound(decoder_.layout(), tables_.routes(), decoder_.output_elements(),
                                                core_.options.rank_count());
  }
  return absl::OkStatus();
}

absl::Status LookupFlowImpl::Admitted(std::shared_ptr<void> grant) {
  grant_ = std::move(grant);
  return decoder_.Allocate(HostMemory(*core_.backend));
}

absl::Status LookupFlowImpl::Append(const wire::BulkMessage& frame) {
  if (complete()) {
    if (frame.payload_bytes() == 0) return absl::OkStatus();
    return MakeError(Reason::kBadJaggedLayout,
                     absl::StrCat("frame: ", frame.payload_bytes(), " bytes after the request was complete"));
  }
  EMBPS_RETURN_IF_ERROR(decoder_.Append(frame));
  if (!decoder_.complete()) return absl::OkStatus();
  EMBPS_ASSIGN_OR_RETURN(batch_, decoder_.Finish());
  PlanReply();
  return absl::OkStatus();
}

void LookupFlowImpl::PlanReply() {
  std::vector<ReplyFeature> features;
  for (const wire::FeatureSlice& feature : batch_->features) {
    features.push_back({feature.slot_count, batch_->tables[static_cast<size_t>(feature.table)].dim});
  }
  for (BlockPlan& plan : PlanBlocks(features, kernels::ElementBytes(type_), block_bytes_)) {
    blocks_.emplace_back().plan = std::move(plan);
  }
}

int64_t LookupFlowImpl::reply_bytes() const {
  return blocks_.empty() ? 0 : blocks_.back().plan.byte_begin + blocks_.back().plan.bytes;
}

void LookupFlowImpl::Start(BlockReady block_ready, Done done) {
  EMBPS_CHECK(complete());
  if (absl::Status status = Prepare(); !status.ok()) return std::move(done)(std::move(status));
  block_ready_ = std::move(block_ready);
  done_ = std::move(done);
  info_.server_incarnation = core_.server_incarnation;
  info_.dropped_ids = static_cast<uint64_t>(batch_->dropped_ids);
  info_.pruned_ids = static_cast<uint64_t>(batch_->pruned_ids);
  ranks_running_ = core_.options.rank_count();
  core_.tickets->TakeForRead(shared_from_this(), [this](uint64_t version) { info_.version = version; });
}

absl::Status LookupFlowImpl::Prepare() {
  EMBPS_RETURN_IF_ERROR(core_.options.rank_count() == 1 ? PrepareDirect() : PrepareRanks());
  if (want_token_) KeepForPush();
  return absl::OkStatus();
}

absl::Status LookupFlowImpl::PrepareDirect() {
  direct_ = std::make_shared<KeptLookup>();
  direct_->batch = batch_;
  EMBPS_ASSIGN_OR_RETURN(direct_->local_ids, LocalIds::Create(*batch_, HostMemory(*core_.backend)));
  return absl::OkStatus();
}

absl::Status LookupFlowImpl::PrepareRanks() {
  ranks_ = std::make_unique<LookupRanks>(*core_.backend, *batch_, tables_, core_.options.rank_count(), type_);
  EMBPS_RETURN_IF_ERROR(ranks_->status());
  for (Block& block : blocks_) {
    block.memory = ranks_->reply_memory();
    block.data = ranks_->reply_data() + block.plan.byte_begin;
  }
  return absl::OkStatus();
}

// A kept batch outlives the call, so it counts against the tokens' own bound and not against the admission.
void LookupFlowImpl::KeepForPush() {
  std::shared_ptr<KeptLookup> kept = direct_ != nullptr ? direct_ : std::make_shared<KeptLookup>();
  kept->batch = batch_;
  kept->bytes = decoder_.memory_bytes();
  if (direct_ != nullptr && batch_->marked_ids == 0) PlanSort(*kept);
  info_.lookup_token = core_.tokens->Keep(session_id_, kept, core_.clock->Now());
  if (info_.lookup_token.empty()) sort_tasks_.clear();
}

// Without memory for it the push sorts by itself.
void LookupFlowImpl::PlanSort(KeptLookup& kept) {
  sort_memory_ = std::make_shared<ScratchArena>(*core_.backend, kernels::MemoryKind::kDevice);
  for (int32_t t = 0; t < tables_.size(); ++t) {
    const wire::TableSlice& slice = batch_->tables[static_cast<size_t>(t)];
    const kernels::GradShape shape = GradShapeOf(slice, tables_[t]);
    const int64_t bytes = core_.backend->GradPlanBytes(shape);
    absl::StatusOr<kernels::Buffer> plan = core_.backend->AllocateScratch(kernels::MemoryKind::kDevice, bytes);
    kernels::GradSortTask task;
    task.ids = kept.local_ids.of(t);
    task.id_count = shape.id_count;
    task.offsets = slice.offsets;
    task.slot_count = shape.slot_count;
    task.row_count = shape.row_count;
    task.weights = slice.weights;
    task.workspace = sort_memory_->Take(core_.backend->GradSortWorkspaceBytes(shape));
    if (!plan.ok() || !sort_memory_->status().ok()) {
      kept.sorted.clear();
      sort_tasks_.clear();
      return;
    }
    task.plan = plan->data();
    kept.bytes += bytes;
    kept.sorted.push_back(*std::move(plan));
    if (shape.id_count > 0) sort_tasks_.push_back(task);
  }
}

void LookupFlowImpl::RunRank(const LaneContext& lane) {
  if (ranks_ == nullptr) return RunDirect(lane);
  ranks_->Run(lane.rank, *core_.backend, *core_.collectives[static_cast<size_t>(lane.rank)], *lane.stream);
  lane.stream->OnComplete([self = shared_from_this()](absl::Status status) { self->RankDone(status); });
}

// Block by block, so that the first is on its way while the next is computed.
void LookupFlowImpl::RunDirect(const LaneContext& lane) {
  for (int i = 0; i < block_count() && !cancelled_.load(std::memory_order_relaxed); ++i) {
    if (absl::Status status = ComputeBlock(blocks_[static_cast<size_t>(i)], *lane.stream); !status.ok()) {
      BlockDone(i, status);
      break;
    }
    lane.stream->OnComplete([self = shared_from_this(), i](absl::Status status) { self->BlockDone(i, status); });
  }
  // The reply is complete before the sort for a push to come begins.
  lane.stream->OnComplete([self = shared_from_this()](absl::Status status) { self->RankDone(status); });
  SortForPush(*lane.stream);
}

absl::Status LookupFlowImpl::ComputeBlock(Block& block, kernels::Stream& stream) {
  EMBPS_ASSIGN_OR_RETURN(kernels::Buffer memory,
                         core_.backend->AllocateScratch(kernels::MemoryKind::kPinnedHost, block.plan.bytes));
  block.data = memory.as<char>();
  block.memory = std::make_shared<kernels::Buffer>(std::move(memory));
  DirectLookup lookup(*direct_, tables_, type_);
  char* out = block.data;
  for (const v1::Run& run : block.plan.runs) {
    for (uint32_t i = 0; i < run.feature_count(); ++i) {
      lookup.Add(static_cast<int32_t>(run.first_feature() + i), static_cast<int64_t>(run.row_begin()),
                 static_cast<int64_t>(run.row_count()), out);
      out += static_cast<int64_t>(run.row_count()) * run.dim() * kernels::ElementBytes(type_);
    }
  }
  lookup.Run(*core_.backend, stream);
  return absl::OkStatus();
}

void LookupFlowImpl::SortForPush(kernels::Stream& stream) {
  if (sort_tasks_.empty()) return;
  core_.backend->GradSort(sort_tasks_, stream);
  stream.OnComplete([memory = std::move(sort_memory_), kept = direct_](absl::Status) {});
}

void LookupFlowImpl::BlockDone(int index, const absl::Status& status) {
  if (status.ok()) return block_ready_(index);
  MutexLock lock(&mu_);
  status_.Update(status);
}

void LookupFlowImpl::RankDone(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    status_.Update(status);
  }
  if (ranks_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish();
}

void LookupFlowImpl::Finish() {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = status_;
  }
  if (ranks_ != nullptr && status.ok() && !cancelled_.load(std::memory_order_relaxed)) {
    for (int i = 0; i < block_count(); ++i) block_ready_(i);
  }
  if (status.ok()) Count();
  block_ready_ = nullptr;
  std::move(done_)(std::move(status));
}

ReplyBlock LookupFlowImpl::TakeBlock(int index) {
  struct Owner {
    std::shared_ptr<void> grant;
    std::shared_ptr<void> memory;
  };
  Block& block = blocks_[static_cast<size_t>(index)];
  EMBPS_CHECK(block.memory != nullptr);
  ReplyBlock out;
  out.runs = block.plan.runs;
  out.data = block.data;
  out.bytes = block.plan.bytes;
  out.owner = std::make_shared<Owner>(Owner{grant_, std::move(block.memory)});
  return out;
}

void LookupFlowImpl::Count() const {
  for (size_t t = 0; t < batch_->tables.size(); ++t) {
    const wire::TableSlice& slice = batch_->tables[t];
    const Table& table = tables_[static_cast<int32_t>(t)];
    TableCounters& counters = table.counters();
    counters.lookups.Add(1);
    counters.ids_looked_up.Add(static_cast<uint64_t>(slice.id_count));
    counters.dropped_ids.Add(static_cast<uint64_t>(slice.dropped_ids));
    counters.pruned_ids.Add(static_cast<uint64_t>(slice.pruned_ids));
    if (ranks_ == nullptr) {
      counters.AddIdsServed(0, static_cast<uint64_t>(slice.id_count) * table.shards(0).size());
    }
  }
  if (ranks_ != nullptr) ranks_->CountIdsServed(tables_);
}

}  // namespace

absl::StatusOr<std::shared_ptr<LookupFlow>> LookupFlow::Begin(Core& core, const v1::LookupHeader& header) {
  auto flow = std::make_shared<LookupFlowImpl>(core);
  EMBPS_RETURN_IF_ERROR(flow->ReadHeader(header));
  return flow;
}

}  // namespace embps
