#include "server/input/push_exchange.h"

namespace embps {
namespace {

template <class T>
T* TakeArray(TakeScratch take, int64_t count) {
  return static_cast<T*>(take(count * int64_t{sizeof(T)}));
}

}  // namespace

void AppendGradPrepare(const wire::TableSlice& table, const GradScale& scale, int64_t slot, int64_t count,
                       std::vector<kernels::GradPrepareTask>& tasks) {
  const bool identity = scale.scale == 1.0f && scale.max_gradient == 0.0f && table.divisors == nullptr;
  if (identity || count == 0) return;
  kernels::GradPrepareTask task;
  task.grads = table.grads + slot * table.dim;
  task.slot_count = count;
  task.dim = table.dim;
  task.scale = scale.scale;
  task.max_gradient = scale.max_gradient;
  if (table.divisors != nullptr) task.divisors = table.divisors + slot;
  tasks.push_back(task);
}

PushExchange::PushExchange(const wire::DecodedBatch& batch, absl::Span<const plan::NodeRoute> routes,
                           const HomeParts& parts, absl::Span<const GradScale> scales, int rank, TakeScratch take)
    : batch_(batch), routes_(routes), parts_(parts), rank_(rank), arrays_(batch.tables.size()) {
  for (int32_t t = 0; t < static_cast<int32_t>(batch.tables.size()); ++t) {
    if (routes[static_cast<size_t>(t)].Owns(rank)) AddTable(t, take);
  }
  for (int32_t f = 0; f < static_cast<int32_t>(batch.features.size()); ++f) {
    AppendGradPrepare(table(f), scales[static_cast<size_t>(feature(f).table)], parts.first_slot(f, rank),
                      parts.slots(f, rank), prepare_);
    if (route(f).kind == plan::RouteKind::kRows) {
      SendRows(f, take);
      RecvRows(f);
    } else {
      SendWhole(f, take);
      if (route(f).Owns(rank)) RecvWhole(f);
    }
  }
}

void PushExchange::AddTable(int32_t t, TakeScratch take) {
  const wire::TableSlice& in = batch_.tables[static_cast<size_t>(t)];
  const plan::NodeRoute& route = routes_[static_cast<size_t>(t)];
  Arrays& mine = arrays_[static_cast<size_t>(t)];
  RankTable out;
  out.table = t;
  out.slot_count = in.slot_count;
  out.id_count = in.id_count;
  mine.offsets = TakeArray<int64_t>(take, in.slot_count + 1);
  if (route.kind == plan::RouteKind::kRows) {
    out.id_count = 0;
    for (const int32_t f : in.features) {
      for (int q = 0; q < parts_.rank_count; ++q) out.id_count += parts_.bucket_count(f, q, rank_);
    }
    mine.lengths = TakeArray<int64_t>(take, in.slot_count);
    offsets_.push_back({mine.lengths, in.slot_count, mine.offsets});
  }
  mine.ids = TakeArray<int64_t>(take, out.id_count);
  if (in.weights != nullptr) mine.weights = TakeArray<float>(take, out.id_count);
  auto add_grads = [&](int32_t width) {
    mine.grads.push_back(TakeArray<float>(take, in.slot_count * width));
    out.slices.push_back({mine.grads.back(), width});
  };
  for (const plan::RouteSlice& slice : route.slices) {
    if (slice.rank == rank_) add_grads(slice.width);
  }
  if (route.slices.empty()) add_grads(in.dim);
  out.offsets = mine.offsets;
  out.ids = mine.ids;
  out.weights = mine.weights;
  tables_.push_back(std::move(out));
}

// The last home part also sends the bound after its last slot. Owners get the table's arrays as they are.
void PushExchange::SendWhole(int32_t f, TakeScratch take) {
  const wire::TableSlice& t = table(f);
  const int64_t slot = parts_.first_slot(f, rank_), slots = parts_.slots(f, rank_);
  const int64_t id = t.offsets[slot], ids = t.offsets[slot + slots] - id;
  for (const int owner : route(f).owners) {
    transfers_.Send(owner, t.offsets + slot, slots + (rank_ == parts_.rank_count - 1));
    transfers_.Send(owner, t.ids + id, ids);
    if (t.weights != nullptr) transfers_.Send(owner, t.weights + id, ids);
    SendGrads(f, owner, take);
  }
}

// Whole rows go from where they are; columns are packed first.
void PushExchange::SendGrads(int32_t f, int owner, TakeScratch take) {
  const wire::TableSlice& t = table(f);
  const int64_t slots = parts_.slots(f, rank_);
  const float* const rows = t.grads + parts_.first_slot(f, rank_) * t.dim;
  if (route(f).slices.size() <= 1) return transfers_.Send(owner, rows, slots * t.dim);
  for (const plan::RouteSlice& slice : route(f).slices) {
    if (slice.rank != owner) continue;
    float* const packed = TakeArray<float>(take, slots * slice.width);
    const int64_t row_bytes = slice.width * int64_t{sizeof(float)};
    pack_.push_back({rows + slice.node_column, t.dim * int64_t{sizeof(float)}, packed, row_bytes, row_bytes, slots});
    transfers_.Send(owner, packed, slots * slice.width);
  }
}

void PushExchange::RecvWhole(int32_t f) {
  const wire::TableSlice& t = table(f);
  Arrays& mine = arrays(f);
  for (int q = 0; q < parts_.rank_count; ++q) {
    const int64_t slot = parts_.first_slot(f, q), slots = parts_.slots(f, q);
    const int64_t id = t.offsets[slot], ids = t.offsets[slot + slots] - id;
    transfers_.Recv(q, mine.offsets + slot, slots + (q == parts_.rank_count - 1));
    transfers_.Recv(q, mine.ids + id, ids);
    if (t.weights != nullptr) transfers_.Recv(q, mine.weights + id, ids);
    if (route(f).slices.empty()) transfers_.Recv(q, mine.grads[0] + slot * t.dim, slots * t.dim);
    size_t s = 0;
    for (const plan::RouteSlice& slice : route(f).slices) {
      if (slice.rank == rank_) transfers_.Recv(q, mine.grads[s++] + slot * slice.width, slots * slice.width);
    }
  }
}

void PushExchange::SendRows(int32_t f, TakeScratch take) {
  const wire::TableSlice& t = table(f);
  const int64_t slot = parts_.first_slot(f, rank_), slots = parts_.slots(f, rank_);
  std::vector<kernels::Bucket>& buckets = buckets_.emplace_back(static_cast<size_t>(parts_.rank_count));
  for (int owner = 0; owner < parts_.rank_count; ++owner) {
    kernels::Bucket& bucket = buckets[static_cast<size_t>(owner)];
    bucket.count = parts_.bucket_count(f, rank_, owner);
    bucket.lengths = TakeArray<int64_t>(take, slots);
    bucket.ids = TakeArray<int64_t>(take, bucket.count);
    if (t.weights != nullptr) bucket.weights = TakeArray<float>(take, bucket.count);
    transfers_.Send(owner, bucket.lengths, slots);
    transfers_.Send(owner, bucket.ids, bucket.count);
    if (t.weights != nullptr) transfers_.Send(owner, bucket.weights, bucket.count);
    transfers_.Send(owner, t.grads + slot * t.dim, slots * t.dim);
  }
  kernels::BucketizeTask task;
  task.offsets = t.offsets + slot;
  task.ids = t.ids;
  task.weights = t.weights;
  task.bag_count = slots;
  task.row_begin = route(f).buckets.row_begin;
  task.block_rows = route(f).buckets.block_rows;
  task.buckets = buckets.data();
  task.bucket_count = parts_.rank_count;
  bucketize_.push_back(task);
}

void PushExchange::RecvRows(int32_t f) {
  const wire::TableSlice& t = table(f);
  Arrays& mine = arrays(f);
  for (int q = 0; q < parts_.rank_count; ++q) {
    const int64_t slots = parts_.slots(f, q), count = parts_.bucket_count(f, q, rank_);
    transfers_.Recv(q, mine.lengths + mine.slots_planned, slots);
    transfers_.Recv(q, mine.ids + mine.ids_planned, count);
    if (t.weights != nullptr) transfers_.Recv(q, mine.weights + mine.ids_planned, count);
    transfers_.Recv(q, mine.grads[0] + mine.slots_planned * t.dim, slots * t.dim);
    mine.slots_planned += slots;
    mine.ids_planned += count;
  }
}

void PushExchange::Run(kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const {
  backend.GradPrepare(prepare_, stream);
  backend.Bucketize(bucketize_, stream);
  backend.Permute(pack_, stream);
  transfers_.Run(collective, stream);
  backend.Offsets(offsets_, stream);
}

}  // namespace embps
