#include "server/flow/lookup_ranks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/flow/host_memory.h"

namespace embps {
namespace {

kernels::PooledLookupTask PooledTask(const TableShard& shard, const RankFeature& bags, void* out, int64_t out_stride,
                                     kernels::ElementType type) {
  kernels::PooledLookupTask task;
  task.table = shard.view();
  task.offsets = bags.offsets;
  task.ids = bags.ids;
  task.weights = bags.weights;
  task.divisors = bags.divisors;
  task.divide_by_length = bags.divide_by_length;
  task.bag_count = bags.slot_count;
  task.out = out;
  task.out_stride = out_stride;
  task.out_type = type;
  return task;
}

kernels::SequenceLookupTask SequenceTask(const TableShard& shard, const RankFeature& ids, void* out, int64_t out_stride,
                                         kernels::ElementType type) {
  kernels::SequenceLookupTask task;
  task.table = shard.view();
  task.ids = ids.ids;
  task.id_count = ids.slot_count;
  task.out = out;
  task.out_stride = out_stride;
  task.out_type = type;
  return task;
}

}  // namespace

kernels::GradShape GradShapeOf(const wire::TableSlice& slice, const Table& table) {
  return {slice.id_count, slice.slot_count, table.node_rows().count(), slice.weights != nullptr};
}

void DirectLookup::Add(int32_t f, int64_t row_begin, int64_t rows, void* out) {
  const wire::FeatureSlice& feature = input_.batch->features[static_cast<size_t>(f)];
  const wire::TableSlice& slice = input_.batch->tables[static_cast<size_t>(feature.table)];
  const int64_t slot = feature.slot_begin + row_begin;
  RankFeature bags;
  bags.slot_count = rows;
  bags.ids = input_.local_ids.of(feature.table);
  if (feature.pooled()) {
    bags.offsets = slice.offsets + slot;
    bags.weights = slice.weights;
    if (feature.pooling == v1::POOLING_MEAN && feature.split_bags) bags.divisors = slice.divisors + slot;
    bags.divide_by_length = feature.pooling == v1::POOLING_MEAN && !feature.split_bags;
  } else {
    bags.ids += slice.offsets[slot];
  }
  for (const auto& shard : tables_[feature.table].shards(0)) {
    void* const columns = static_cast<char*>(out) + shard->node_column() * kernels::ElementBytes(type_);
    if (feature.pooled()) {
      pooled_.push_back(PooledTask(*shard, bags, columns, slice.dim, type_));
    } else {
      sequence_.push_back(SequenceTask(*shard, bags, columns, slice.dim, type_));
    }
  }
}

void DirectLookup::Run(kernels::Backend& backend, kernels::Stream& stream) const {
  if (!pooled_.empty()) backend.PooledLookup(pooled_, stream);
  if (!sequence_.empty()) backend.SequenceLookup(sequence_, stream);
}

// What one rank's lane runs.
struct LookupRanks::Rank {
  Rank(kernels::Backend& backend, int index) : index(index), arena(backend, kernels::MemoryKind::kDevice) {}

  const int index;
  ScratchArena arena;
  std::optional<LookupExchange> input;
  std::vector<kernels::PooledLookupTask> pooled;
  std::vector<kernels::SequenceLookupTask> sequence;
  std::vector<ShardRows> results;
  std::optional<OutputExchange> output;
};

LookupRanks::LookupRanks(kernels::Backend& backend, const wire::DecodedBatch& batch, const TableSet& tables,
                         int rank_count, kernels::ElementType type)
    : batch_(batch), type_(type), parts_(CutHomeParts(batch, tables.routes(), rank_count)) {
  int64_t bytes = 0;
  std::vector<int64_t> begins;
  for (const wire::FeatureSlice& feature : batch.features) {
    begins.push_back(bytes);
    bytes += feature.slot_count * batch.tables[static_cast<size_t>(feature.table)].dim * kernels::ElementBytes(type);
  }
  absl::StatusOr<std::shared_ptr<void>> reply = HostMemory(backend)(std::max<int64_t>(1, bytes));
  if (!reply.ok()) {
    reply_status_ = reply.status();
    return;
  }
  reply_ = *std::move(reply);
  for (const int64_t begin : begins) reply_rows_.push_back(reply_data() + begin);
  reply_shape_ = {&batch, tables.routes(), parts_.slot_bounds, parts_.bucket_counts, rank_count, type, reply_rows_};
  for (int r = 0; r < rank_count; ++r) {
    Rank& rank = *ranks_.emplace_back(std::make_unique<Rank>(backend, r));
    const auto take = [&rank](int64_t size) { return rank.arena.Take(size); };
    rank.input.emplace(batch, tables.routes(), parts_, r, take);
    AddLookups(rank, tables);
    std::vector<HomePositions> positions;
    for (const RowPositions& p : rank.input->positions()) positions.push_back({p.feature, p.of_owner});
    rank.output.emplace(reply_shape_, r, rank.results, positions, take);
  }
}

LookupRanks::~LookupRanks() = default;

// Features of copies are looked up into the reply itself, all others into scratch that the output exchange sends.
void LookupRanks::AddLookups(Rank& rank, const TableSet& tables) {
  for (const RankFeature& bags : rank.input->features()) {
    const wire::FeatureSlice& feature = batch_.features[static_cast<size_t>(bags.feature)];
    const int64_t element_bytes = kernels::ElementBytes(bags.partial ? kernels::ElementType::kFp32 : type_);
    const bool at_home = tables.routes()[static_cast<size_t>(feature.table)].kind == plan::RouteKind::kCopies;
    for (const auto& shard : tables[feature.table].shards(rank.index)) {
      const int32_t width = shard->range().column_count();
      void* out;
      if (at_home) {
        const int64_t row = parts_.first_slot(bags.feature, rank.index) - feature.slot_begin;
        out = reply_rows_[static_cast<size_t>(bags.feature)] + row * width * element_bytes;
      } else {
        out = rank.arena.Take(bags.slot_count * width * element_bytes);
        rank.results.push_back({bags.feature, out});
      }
      if (feature.pooled()) {
        rank.pooled.push_back(PooledTask(*shard, bags, out, width, bags.partial ? kernels::ElementType::kFp32 : type_));
      } else {
        rank.sequence.push_back(SequenceTask(*shard, bags, out, width, type_));
      }
    }
  }
}

absl::Status LookupRanks::status() const {
  absl::Status status = reply_status_;
  for (const auto& rank : ranks_) status.Update(rank->arena.status());
  return status;
}

void LookupRanks::Run(int rank, kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const {
  const Rank& mine = *ranks_[static_cast<size_t>(rank)];
  mine.input->Run(backend, collective, stream);
  backend.PooledLookup(mine.pooled, stream);
  backend.SequenceLookup(mine.sequence, stream);
  mine.output->Run(backend, collective, stream);
}

void LookupRanks::CountIdsServed(const TableSet& tables) const {
  for (const auto& rank : ranks_) {
    for (const RankFeature& bags : rank->input->features()) {
      const Table& table = tables[batch_.features[static_cast<size_t>(bags.feature)].table];
      const size_t shards = table.shards(rank->index).size();
      table.counters().AddIdsServed(rank->index, static_cast<uint64_t>(bags.id_count) * shards);
    }
  }
}

// Per id: at home up to 20 bytes (bucketized ids, positions, weights), at each owner 12. Per slot: lengths and offsets
// on both sides. Per output element: rows at the owner and again at home, for partial sums once per rank.
int64_t LookupRanks::BytesBound(const wire::DecodedBatch& layout, absl::Span<const plan::NodeRoute> routes,
                                int64_t output_elements, int rank_count) {
  int64_t owners = 1, copies = 2;
  for (const plan::NodeRoute& route : routes) {
    owners = std::max<int64_t>(owners, static_cast<int64_t>(route.owners.size()));
    if (route.kind == plan::RouteKind::kRows) copies = int64_t{2} * rank_count;
  }
  const int64_t ids = layout.id_count, slots = layout.bag_count + layout.id_count;
  const int64_t alignment = int64_t{1024} * rank_count * static_cast<int64_t>(layout.features.size() + 1);
  return ids * (20 + 12 * owners) + slots * 24 * (owners + 1) + output_elements * 4 * copies + alignment;
}

}  // namespace embps
