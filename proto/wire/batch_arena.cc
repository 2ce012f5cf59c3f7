// One block of memory for all arrays of a batch, each 64-byte aligned.
#include <algorithm>

#include "proto/wire/decoder_state.h"
#include "proto/wire/request_checks.h"

namespace embps::wire {
namespace {

constexpr int64_t kAlignBytes = 64;

int64_t RoundUp(int64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

class Arena {
 public:
  explicit Arena(char* memory) : next_(memory) {}
  template <class T>
  T* Take(int64_t count) {
    T* taken = reinterpret_cast<T*>(next_);
    next_ += RoundUp(count * static_cast<int64_t>(sizeof(T)));
    return taken;
  }
  char* next() const { return next_; }

 private:
  char* next_;
};

// Sums over the features of a request, from the header alone.
struct Bounds {
  int64_t pooled_bags = 0;
  int64_t pooled_elements = 0;  // sum of B_f * D_f
  int64_t sequence_dim = 0;     // largest D of a sequence feature
  bool has_sequence = false;
  bool has_mean = false;
  int64_t min_id_bytes = 8;
};

Bounds BoundsOf(const DecodedBatch& batch) {
  Bounds bounds;
  for (const FeatureSlice& feature : batch.features) {
    const TableSlice& table = batch.tables[static_cast<size_t>(feature.table)];
    bounds.has_mean |= table.has_mean;
    bounds.min_id_bytes = std::min<int64_t>(bounds.min_id_bytes, table.id_bytes);
    if (feature.pooled()) {
      bounds.pooled_bags += feature.bag_count;
      bounds.pooled_elements += feature.bag_count * table.dim;
    } else {
      bounds.has_sequence = true;
      bounds.sequence_dim = std::max<int64_t>(bounds.sequence_dim, table.dim);
    }
  }
  return bounds;
}

// A stream declares its bytes, which bounds the gradients more tightly where ids of wide and narrow tables mix.
int64_t GradElements(const DecoderState& state, const Bounds& bounds) {
  const DecodedBatch& batch = *state.batch;
  const int64_t elements = bounds.pooled_elements + (bounds.has_sequence ? batch.id_count * bounds.sequence_dim : 0);
  if (!bounds.has_sequence || state.total_bytes == 0) return elements;
  const int64_t id_bytes = batch.id_count * (bounds.min_id_bytes + (batch.weighted ? 4 : 0));
  const int64_t rest = state.total_bytes - id_bytes - (batch.bag_count + state.split_bag_count) * 8;
  return std::min(elements, std::max<int64_t>(rest, 0) / DataTypeBytes(state.grad_type));
}

void FillOffsets(const DecoderState& state, const TableSlice& table, int64_t* offsets) {
  int64_t at = 0;
  *offsets++ = 0;
  for (int32_t f : table.features) {
    const FeatureSlice& feature = state.batch->features[static_cast<size_t>(f)];
    if (feature.pooled()) {
      const int64_t* lengths = state.lengths + feature.bag_begin;
      for (int64_t bag = 0; bag < feature.bag_count; ++bag) *offsets++ = at += lengths[bag];
    } else {
      for (int64_t slot = 0; slot < feature.slot_count; ++slot) *offsets++ = ++at;
    }
  }
}

}  // namespace

int64_t OutputElements(const DecodedBatch& batch) {
  const Bounds bounds = BoundsOf(batch);
  return bounds.pooled_elements + (bounds.has_sequence ? batch.id_count * bounds.sequence_dim : 0);
}

int64_t ArenaBytes(const DecoderState& state) {
  const DecodedBatch& batch = *state.batch;
  const auto tables = static_cast<int64_t>(batch.tables.size());
  // Each array of each table may leave up to 64 bytes of padding.
  const auto per_table = [&](int64_t bytes) { return bytes + tables * kAlignBytes; };
  if (state.kept != nullptr) {
    int64_t bytes = 0;
    for (const TableSlice& table : batch.tables) {
      bytes += RoundUp(table.slot_count * table.dim * 4);
      if (!state.may_copy_kept()) continue;
      bytes += RoundUp((table.slot_count + 1) * 8) + RoundUp(table.id_count * 8);
      if (batch.weighted) bytes += RoundUp(table.id_count * 4);
    }
    return std::max(bytes, kAlignBytes);
  }
  const Bounds bounds = BoundsOf(batch);
  const int64_t slots = bounds.pooled_bags + (bounds.has_sequence ? batch.id_count : 0);
  int64_t bytes = RoundUp(batch.bag_count * 8) + RoundUp(state.split_bag_count * 8);
  bytes += per_table((slots + tables) * 8) + per_table(batch.id_count * 8);
  if (batch.weighted) bytes += per_table(batch.id_count * 4);
  if (bounds.has_mean) bytes += per_table(slots * 8);
  if (state.push) bytes += per_table(GradElements(state, bounds) * 4);
  return RoundUp(std::max(bytes, kAlignBytes));
}

char* PlaceLengths(DecoderState* state, char* memory) {
  Arena arena(memory);
  state->lengths = arena.Take<int64_t>(state->batch->bag_count);
  state->batch->lengths = state->lengths;
  state->bag_sizes = arena.Take<int64_t>(state->split_bag_count);
  return arena.next();
}

void PlaceTables(DecoderState* state, char* memory) {
  Arena arena(memory);
  DecodedBatch& batch = *state->batch;
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    TableSlice& table = batch.tables[t];
    for (int32_t f : table.features) {
      FeatureSlice& feature = batch.features[static_cast<size_t>(f)];
      feature.slot_count = feature.pooled() ? feature.bag_count : feature.id_count;
      feature.slot_begin = table.slot_count;
      feature.id_begin = table.id_count;
      table.slot_count += feature.slot_count;
      table.id_count += feature.id_count;
    }
    TableArrays& arrays = state->arrays[t];
    table.offsets = arrays.offsets = arena.Take<int64_t>(table.slot_count + 1);
    table.ids = arrays.ids = arena.Take<int64_t>(table.id_count);
    if (batch.weighted) table.weights = arrays.weights = arena.Take<float>(table.id_count);
    if (table.has_mean) table.divisors = arrays.divisors = arena.Take<int64_t>(table.slot_count);
    if (state->push) table.grads = arena.Take<float>(table.slot_count * table.dim);
    FillOffsets(*state, table, arrays.offsets);
  }
}

void PlaceTokenPush(DecoderState* state, char* memory) {
  Arena arena(memory);
  DecodedBatch& batch = *state->batch;
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    TableSlice& table = batch.tables[t];
    table.grads = arena.Take<float>(table.slot_count * table.dim);
    if (!state->may_copy_kept()) continue;
    TableArrays& arrays = state->arrays[t];
    arrays.offsets = arena.Take<int64_t>(table.slot_count + 1);
    arrays.ids = arena.Take<int64_t>(table.id_count);
    if (batch.weighted) arrays.weights = arena.Take<float>(table.id_count);
  }
}

}  // namespace embps::wire
