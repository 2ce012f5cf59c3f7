#include "server/input/lookup_exchange.h"

#include <utility>

namespace embps {
namespace {

template <class T>
T* TakeArray(TakeScratch take, int64_t count) {
  return static_cast<T*>(take(count * int64_t{sizeof(T)}));
}

bool SplitMean(const wire::FeatureSlice& feature) { return feature.split_bags && feature.pooling == v1::POOLING_MEAN; }

}  // namespace

LookupExchange::LookupExchange(const wire::DecodedBatch& batch, absl::Span<const plan::NodeRoute> routes,
                               const HomeParts& parts, int rank, TakeScratch take)
    : batch_(batch), routes_(routes), parts_(parts), rank_(rank), tables_(batch.tables.size()) {
  for (int32_t f = 0; f < static_cast<int32_t>(batch.features.size()); ++f) {
    switch (route(f).kind) {
      case plan::RouteKind::kWhole:
        PlanWhole(f, take);
        break;
      case plan::RouteKind::kRows:
        SendRows(f, take);
        RecvRows(f, take);
        break;
      case plan::RouteKind::kCopies:
        PlanCopies(f);
        break;
    }
  }
}

// The last home part also sends the bound after its last bag.
void LookupExchange::PlanWhole(int32_t f, TakeScratch take) {
  const wire::TableSlice& t = table(f);
  const int64_t slot = parts_.first_slot(f, rank_), slots = parts_.slots(f, rank_);
  const int64_t id = t.offsets[slot], ids = t.offsets[slot + slots] - id;
  for (const int owner : route(f).owners) {
    if (feature(f).pooled()) transfers_.Send(owner, t.offsets + slot, slots + (rank_ == parts_.rank_count - 1));
    if (SplitMean(feature(f))) transfers_.Send(owner, t.divisors + slot, slots);
    transfers_.Send(owner, t.ids + id, ids);
    if (t.weights != nullptr) transfers_.Send(owner, t.weights + id, ids);
  }
  if (route(f).Owns(rank_)) RecvWhole(f, take);
}

// An owner's copy of a table's arrays has the layout of the batch's, so offsets need no rebuilding.
void LookupExchange::RecvWhole(int32_t f, TakeScratch take) {
  const wire::FeatureSlice& in = feature(f);
  const wire::TableSlice& t = table(f);
  TableArrays& mine = tables_[static_cast<size_t>(in.table)];
  if (mine.offsets == nullptr) {
    mine.offsets = TakeArray<int64_t>(take, t.slot_count + 1);
    mine.ids = TakeArray<int64_t>(take, t.id_count);
    if (t.weights != nullptr) mine.weights = TakeArray<float>(take, t.id_count);
    if (t.divisors != nullptr) mine.divisors = TakeArray<int64_t>(take, t.slot_count);
  }
  for (int q = 0; q < parts_.rank_count; ++q) {
    const int64_t slot = parts_.first_slot(f, q), slots = parts_.slots(f, q);
    const int64_t id = t.offsets[slot], ids = t.offsets[slot + slots] - id;
    if (in.pooled()) transfers_.Recv(q, mine.offsets + slot, slots + (q == parts_.rank_count - 1));
    if (SplitMean(in)) transfers_.Recv(q, mine.divisors + slot, slots);
    transfers_.Recv(q, mine.ids + id, ids);
    if (t.weights != nullptr) transfers_.Recv(q, mine.weights + id, ids);
  }
  RankFeature out;
  out.feature = f;
  out.slot_count = in.slot_count;
  out.id_count = in.id_count;
  if (in.pooled()) out.offsets = mine.offsets + in.slot_begin;
  out.ids = in.pooled() ? mine.ids : mine.ids + in.id_begin;
  out.weights = mine.weights;
  if (SplitMean(in)) out.divisors = mine.divisors + in.slot_begin;
  out.divide_by_length = in.pooling == v1::POOLING_MEAN && !in.split_bags;
  features_.push_back(out);
}

void LookupExchange::PlanCopies(int32_t f) {
  const wire::FeatureSlice& in = feature(f);
  const wire::TableSlice& t = table(f);
  const int64_t slot = parts_.first_slot(f, rank_);
  RankFeature out;
  out.feature = f;
  out.slot_count = parts_.slots(f, rank_);
  out.id_count = t.offsets[slot + out.slot_count] - t.offsets[slot];
  if (in.pooled()) out.offsets = t.offsets + slot;
  out.ids = in.pooled() ? t.ids : t.ids + t.offsets[slot];
  out.weights = t.weights;
  if (SplitMean(in)) out.divisors = t.divisors + slot;
  out.divide_by_length = in.pooling == v1::POOLING_MEAN && !in.split_bags;
  features_.push_back(out);
}

void LookupExchange::SendRows(int32_t f, TakeScratch take) {
  const bool pooled = feature(f).pooled();
  const wire::TableSlice& t = table(f);
  const int64_t slots = parts_.slots(f, rank_);
  std::vector<kernels::Bucket>& buckets = buckets_.emplace_back(static_cast<size_t>(parts_.rank_count));
  RowPositions positions{f, {}};
  for (int owner = 0; owner < parts_.rank_count; ++owner) {
    kernels::Bucket& bucket = buckets[static_cast<size_t>(owner)];
    bucket.count = parts_.bucket_count(f, rank_, owner);
    bucket.lengths = TakeArray<int64_t>(take, slots);
    bucket.ids = TakeArray<int64_t>(take, bucket.count);
    if (t.weights != nullptr) bucket.weights = TakeArray<float>(take, bucket.count);
    if (!pooled) bucket.positions = TakeArray<int64_t>(take, bucket.count);
    if (pooled) transfers_.Send(owner, bucket.lengths, slots);
    transfers_.Send(owner, bucket.ids, bucket.count);
    if (t.weights != nullptr) transfers_.Send(owner, bucket.weights, bucket.count);
    positions.of_owner.push_back(bucket.positions);
  }
  if (!pooled) positions_.push_back(std::move(positions));
  kernels::BucketizeTask task;
  task.offsets = t.offsets + parts_.first_slot(f, rank_);
  task.ids = t.ids;
  task.weights = t.weights;
  task.bag_count = slots;
  task.row_begin = route(f).buckets.row_begin;
  task.block_rows = route(f).buckets.block_rows;
  task.buckets = buckets.data();
  task.bucket_count = parts_.rank_count;
  bucketize_.push_back(task);
}

void LookupExchange::RecvRows(int32_t f, TakeScratch take) {
  const wire::FeatureSlice& in = feature(f);
  const bool weighted = table(f).weights != nullptr;
  RankFeature out;
  out.feature = f;
  for (int q = 0; q < parts_.rank_count; ++q) out.id_count += parts_.bucket_count(f, q, rank_);
  out.slot_count = in.pooled() ? in.slot_count : out.id_count;
  int64_t* const lengths = in.pooled() ? TakeArray<int64_t>(take, in.slot_count) : nullptr;
  int64_t* const ids = TakeArray<int64_t>(take, out.id_count);
  float* const weights = weighted ? TakeArray<float>(take, out.id_count) : nullptr;
  int64_t slot = 0, id = 0;
  for (int q = 0; q < parts_.rank_count; ++q) {
    const int64_t slots = parts_.slots(f, q), count = parts_.bucket_count(f, q, rank_);
    if (in.pooled()) transfers_.Recv(q, lengths + slot, slots);
    transfers_.Recv(q, ids + id, count);
    if (weighted) transfers_.Recv(q, weights + id, count);
    slot += slots;
    id += count;
  }
  out.ids = ids;
  out.weights = weights;
  out.partial = in.pooled();
  if (in.pooled()) {
    int64_t* const offsets = TakeArray<int64_t>(take, in.slot_count + 1);
    offsets_.push_back({lengths, in.slot_count, offsets});
    out.offsets = offsets;
  }
  features_.push_back(out);
}

void LookupExchange::Run(kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const {
  backend.Bucketize(bucketize_, stream);
  transfers_.Run(collective, stream);
  backend.Offsets(offsets_, stream);
}

}  // namespace embps
