#include "server/flow/push_ranks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/flow/host_memory.h"
#include "server/flow/lookup_ranks.h"
#include "server/table/table_kernels.h"

namespace embps {
namespace {

// Updates of one call share no workspace, calls after one another do: so many shards go into one call as fit in here.
constexpr int64_t kCallWorkspaceBytes = int64_t{16} << 20;

constexpr int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

// One shard of one table.
struct PushRanks::ShardUpdate {
  const TableShard* shard = nullptr;
  SliceGrads grads;
  bool counts_rows = true;    // false for column slices after the first: their rows are the same
  bool counts_values = true;  // false for copies after the first
  kernels::UpdateCounts counts;
  int call = 0;  // of ReduceUpdate, in order
  int64_t workspace_begin = 0;
};

// The ids of one table on one rank, sorted once for all its shards there.
struct PushRanks::TableWork {
  int32_t table = 0;
  kernels::GradShape shape;
  kernels::GradSortTask sort;  // plan = null: sorted already
  const void* plan = nullptr;
  int64_t* distinct_rows = nullptr;  // for the observer
  int64_t* distinct_count = nullptr;
  std::vector<ShardUpdate> shards;
};

struct PushRanks::Rank {
  Rank(kernels::Backend& backend, int index) : index(index), arena(backend, kernels::MemoryKind::kDevice) {}

  const int index;
  ScratchArena arena;
  std::vector<kernels::GradPrepareTask> prepare;  // one rank only, else the exchange prepares
  std::optional<PushExchange> exchange;
  std::vector<TableWork> tables;  // those with ids here
  int last_call = 0;
  int64_t workspace_used = 0;   // by the last call so far
  int64_t workspace_bytes = 0;  // the most that a call uses
  char* workspace = nullptr;

  void PlaceWorkspace(int64_t bytes, ShardUpdate& update) {
    if (workspace_used > 0 && workspace_used + bytes > kCallWorkspaceBytes) {
      ++last_call;
      workspace_used = 0;
    }
    update.call = last_call;
    update.workspace_begin = workspace_used;
    workspace_used += Aligned(bytes);
    workspace_bytes = std::max(workspace_bytes, workspace_used);
  }
  void TakeWorkspace() { workspace = static_cast<char*>(arena.Take(workspace_bytes)); }
};

PushRanks::PushRanks(kernels::Backend& backend, const wire::DecodedBatch& batch, const TableSet& tables, int rank_count,
                     absl::Span<const GradScale> scales, const KeptLookup* kept)
    : backend_(backend), batch_(batch), tables_(tables) {
  if (rank_count == 1) {
    PlanDirect(*ranks_.emplace_back(std::make_unique<Rank>(backend, 0)), scales, kept);
    return;
  }
  parts_ = CutHomeParts(batch, tables.routes(), rank_count);
  for (int r = 0; r < rank_count; ++r) {
    Rank& rank = *ranks_.emplace_back(std::make_unique<Rank>(backend, r));
    rank.exchange.emplace(batch, tables.routes(), parts_, scales, r,
                          [&rank](int64_t bytes) { return rank.arena.Take(bytes); });
    for (const RankTable& input : rank.exchange->tables()) AddTable(rank, input, nullptr);
    rank.TakeWorkspace();
  }
}

PushRanks::~PushRanks() = default;

// Shards work on the decoded arrays themselves.
void PushRanks::PlanDirect(Rank& rank, absl::Span<const GradScale> scales, const KeptLookup* kept) {
  if (kept == nullptr) {
    absl::StatusOr<LocalIds> local = LocalIds::Create(batch_, HostMemory(backend_));
    local_status_ = local.status();
    if (!local.ok()) return;
    local_ids_ = *std::move(local);
  }
  const LocalIds& ids = kept != nullptr ? kept->local_ids : local_ids_;
  for (int32_t t = 0; t < tables_.size(); ++t) {
    const wire::TableSlice& slice = batch_.tables[static_cast<size_t>(t)];
    AppendGradPrepare(slice, scales[static_cast<size_t>(t)], 0, slice.slot_count, rank.prepare);
    RankTable input{t, slice.slot_count, slice.id_count, slice.offsets, ids.of(t), slice.weights, {}};
    for (const auto& shard : tables_[t].shards(0)) {
      input.slices.push_back({slice.grads + shard->node_column(), slice.dim});
    }
    const bool sorted = kept != nullptr && !kept->sorted.empty();
    AddTable(rank, input, sorted ? kept->sorted[static_cast<size_t>(t)].data() : nullptr);
  }
  rank.TakeWorkspace();
}

// Nothing to do for a table without ids here; its step has advanced all the same.
void PushRanks::AddTable(Rank& rank, const RankTable& input, const void* sorted) {
  const auto shards = tables_[input.table].shards(rank.index);
  if (input.id_count == 0 || shards.empty()) return;
  const plan::NodeRoute& route = tables_.routes()[static_cast<size_t>(input.table)];
  TableWork& work = rank.tables.emplace_back();
  work.table = input.table;
  work.shape = {input.id_count, input.slot_count, shards[0]->range().row_count(), input.weights != nullptr};
  work.plan = sorted;
  if (sorted == nullptr) {
    void* const plan = rank.arena.Take(backend_.GradPlanBytes(work.shape));
    void* const workspace = rank.arena.Take(backend_.GradSortWorkspaceBytes(work.shape));
    work.plan = plan;
    work.sort = {input.ids,     input.id_count, input.offsets, input.slot_count, work.shape.row_count,
                 input.weights, plan,           workspace};
  }
  const int64_t distinct = std::min(work.shape.id_count, work.shape.row_count);
  work.distinct_rows = static_cast<int64_t*>(rank.arena.Take(distinct * int64_t{sizeof(int64_t)}));
  work.distinct_count = static_cast<int64_t*>(rank.arena.Take(sizeof(int64_t)));
  for (size_t s = 0; s < shards.size(); ++s) {
    ShardUpdate& update = work.shards.emplace_back();
    update.shard = shards[s].get();
    update.grads = input.slices[s];
    update.counts_values = route.kind != plan::RouteKind::kCopies || rank.index == route.owners[0];
    update.counts_rows = update.counts_values && shards[s]->node_column() == 0;
    rank.PlaceWorkspace(backend_.ReduceUpdateWorkspaceBytes(work.shape, shards[s]->range().column_count()), update);
  }
}

absl::Status PushRanks::status() const {
  absl::Status status = local_status_;
  for (const auto& rank : ranks_) status.Update(rank->arena.status());
  return status;
}

namespace {

// Runs on the stream between the sort and the update.
void Observe(WriteObserver& observer, const std::vector<const TableShard*>& shards, const int64_t* rows,
             const int64_t* count, kernels::Stream& stream) {
  stream.Enqueue([&observer, shards, rows, count] {
    for (const TableShard* shard : shards) {
      observer.BeforeWrite(*shard, absl::MakeConstSpan(rows, static_cast<size_t>(*count)));
    }
    return absl::OkStatus();
  });
}

kernels::ReduceUpdateTask UpdateTask(const v1::TableSpec& spec, const TableStep& step, const TableShard& shard,
                                     const SliceGrads& grads) {
  kernels::ReduceUpdateTask task;
  task.table = shard.view();
  task.grads = grads.grads;
  task.grad_stride = grads.stride;
  task.optimizer = KernelOptimizer(spec.optimizer(), step.learning_rate, step.step);
  task.rounding = KernelRounding(spec, step.step);
  return task;
}

}  // namespace

void PushRanks::Run(int rank_index, kernels::Backend& backend, Collective& collective,
                    absl::Span<const TableStep> steps, WriteObserver* observer, kernels::Stream& stream) {
  Rank& rank = *ranks_[static_cast<size_t>(rank_index)];
  if (rank.exchange.has_value()) rank.exchange->Run(backend, collective, stream);
  backend.GradPrepare(rank.prepare, stream);
  std::vector<kernels::GradSortTask> sorts;
  std::vector<kernels::DistinctRowsTask> distinct;
  std::vector<std::vector<kernels::ReduceUpdateTask>> updates(static_cast<size_t>(rank.last_call) + 1);
  for (TableWork& work : rank.tables) {
    if (work.sort.plan != nullptr) sorts.push_back(work.sort);
    if (observer != nullptr) distinct.push_back({work.shape, work.plan, work.distinct_rows, work.distinct_count});
    const auto t = static_cast<size_t>(work.table);
    for (ShardUpdate& update : work.shards) {
      kernels::ReduceUpdateTask& task = updates[static_cast<size_t>(update.call)].emplace_back(
          UpdateTask(tables_[work.table].spec(), steps[t], *update.shard, update.grads));
      task.shape = work.shape;
      task.plan = work.plan;
      task.counts = &update.counts;
      task.workspace = rank.workspace + update.workspace_begin;
    }
  }
  backend.GradSort(sorts, stream);
  backend.DistinctRows(distinct, stream);
  for (const TableWork& work : rank.tables) {
    if (observer == nullptr) break;
    std::vector<const TableShard*> shards;
    for (const ShardUpdate& update : work.shards) shards.push_back(update.shard);
    Observe(*observer, shards, work.distinct_rows, work.distinct_count, stream);
  }
  for (const auto& call : updates) backend.ReduceUpdate(call, stream);
}

kernels::UpdateCounts PushRanks::CountsOf(int32_t table) const {
  kernels::UpdateCounts sum;
  for (const auto& rank : ranks_) {
    for (const TableWork& work : rank->tables) {
      if (work.table != table) continue;
      for (const ShardUpdate& update : work.shards) {
        if (update.counts_rows) sum.rows_updated += update.counts.rows_updated;
        if (update.counts_rows) sum.rows_overflowed += update.counts.rows_overflowed;
        if (update.counts_values) sum.values_saturated += update.counts.values_saturated;
      }
    }
  }
  return sum;
}

void PushRanks::CountIdsServed() const {
  for (const auto& rank : ranks_) {
    for (const TableWork& work : rank->tables) {
      const auto ids = static_cast<uint64_t>(work.shape.id_count) * work.shards.size();
      tables_[work.table].counters().AddIdsServed(rank->index, ids);
    }
  }
}

// Sorts grow with ids, slots and rows: one over all ids bounds those of the tables together, but for what each costs
// without ids.
int64_t PushRanks::BytesBound(kernels::Backend& backend, const wire::DecodedBatch& layout, const TableSet& tables,
                              bool weighted, int rank_count) {
  const auto sort_bytes = [&](const kernels::GradShape& shape) {
    return backend.GradPlanBytes(shape) + backend.GradSortWorkspaceBytes(shape) +
           std::min(shape.id_count, shape.row_count) * 8 + 1024;
  };
  kernels::GradShape all{layout.id_count, layout.bag_count + layout.id_count, 1, weighted};
  int64_t bytes = 0, workspace = 0, largest = 0, most_ranks = 1;
  int32_t max_dim = 1;
  for (int32_t t = 0; t < tables.size(); ++t) {
    const plan::NodeRoute& route = tables.routes()[static_cast<size_t>(t)];
    const auto owners = static_cast<int64_t>(route.owners.size());
    all.row_count = std::max(all.row_count, tables[t].node_rows().count());
    max_dim = std::max(max_dim, route.dim);
    bytes += owners * sort_bytes({0, 0, tables[t].node_rows().count(), weighted});
    most_ranks = std::max(most_ranks, owners);
    const int64_t update = Aligned(backend.ReduceUpdateWorkspaceBytes(all, route.dim));
    workspace += update * static_cast<int64_t>(std::max<size_t>(1, route.slices.size()));
    largest = std::max(largest, update);
  }
  bytes += sort_bytes(all) * most_ranks + std::min(workspace, kCallWorkspaceBytes + largest) * rank_count;
  if (rank_count == 1) return bytes + layout.id_count * 8;
  // Ids at home and at the owners, slots' lengths and offsets, gradients at the owners and packed at home.
  int64_t grads = layout.id_count * max_dim * 4;
  for (const wire::FeatureSlice& feature : layout.features) {
    if (feature.pooled()) grads += feature.bag_count * tables.routes()[static_cast<size_t>(feature.table)].dim * 4;
  }
  return bytes + layout.id_count * 12 * (most_ranks + 1) + all.slot_count * 24 * (most_ranks + 1) +
         grads * (most_ranks + 1) + int64_t{1024} * rank_count * static_cast<int64_t>(layout.features.size() + 1);
}

}  // namespace embps
