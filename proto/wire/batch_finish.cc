// What needs a whole tensor, or the whole batch: sums, the out-of-range policy, compaction, divisors, the non-finite
// policy. All loops over single elements here are cold but for sums and divisors.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "proto/wire/decoder_state.h"
#include "proto/wire/jagged_errors.h"

namespace embps::wire {
namespace {

absl::Status NameBadLength(const DecoderState& state) {
  for (size_t f = 0; f < state.batch->features.size(); ++f) {
    const FeatureSlice& feature = state.batch->features[f];
    for (int64_t bag = 0; bag < feature.bag_count; ++bag) {
      const int64_t entry = feature.bag_begin + bag;
      const int64_t length = state.lengths[entry];
      if (length >= 0 && length <= state.batch->id_count) continue;
      return BadLength(state.Label(f), entry, bag, length, state.batch->id_count);
    }
  }
  return absl::InternalError("a bad length was seen and then not found");
}

// Marks or reports the ids of one flagged feature.
struct IdScan {
  int64_t out_of_range = 0, misrouted = 0;
  size_t first_bad_feature = 0, first_misrouted_feature = 0;
  IdFault bad, stray;
};

void ScanIds(DecoderState* state, size_t f, bool drop, IdScan* scan) {
  DecodedBatch& batch = *state->batch;
  const FeatureSlice& feature = batch.features[f];
  TableSlice& table = batch.tables[static_cast<size_t>(feature.table)];
  int64_t* ids = state->ArraysOf(feature).ids + feature.id_begin;
  for (int64_t i = 0; i < feature.id_count; ++i) {
    const int64_t id = ids[i], position = state->id_positions[f] + i;
    if (id >= table.row_begin && id < table.row_end) continue;
    if (id >= 0 && id < table.row_count) {
      if (scan->misrouted++ == 0) {
        scan->first_misrouted_feature = f;
        scan->stray = {id, position, 0};
      }
      continue;
    }
    if (scan->out_of_range++ == 0) {
      scan->first_bad_feature = f;
      scan->bad = {id, position, 0};
    }
    if (!drop) continue;
    ++(id == -1 ? batch.pruned_ids : batch.dropped_ids);
    ++(id == -1 ? table.pruned_ids : table.dropped_ids);
    ids[i] = -1;
  }
}

// Takes out -1 marks (of sequences only if take_sequence_marks) and all ids of slots with bad_slots[slot], in place.
void Compact(DecodedBatch* batch, TableSlice* table, const TableArrays& arrays, bool take_sequence_marks,
             const std::vector<uint8_t>* bad_slots) {
  int64_t read = 0, write = 0;
  for (int32_t f : table->features) {
    FeatureSlice& feature = batch->features[static_cast<size_t>(f)];
    const bool take_marks = take_sequence_marks || feature.pooled();
    feature.id_begin = write;
    for (int64_t slot = feature.slot_begin; slot < feature.slot_begin + feature.slot_count; ++slot) {
      const int64_t end = arrays.offsets[slot + 1];
      const bool take_slot = bad_slots != nullptr && (*bad_slots)[static_cast<size_t>(slot)] != 0;
      for (; read < end; ++read) {
        if (take_slot || (take_marks && arrays.ids[read] == -1)) continue;
        arrays.ids[write] = arrays.ids[read];
        if (arrays.weights != nullptr) arrays.weights[write] = arrays.weights[read];
        ++write;
      }
      arrays.offsets[slot + 1] = write;
    }
    feature.id_count = write - feature.id_begin;
  }
  table->id_count = write;
}

// divisor = accepted length of the whole bag: what DROP took out of this node's part is taken off bag_sizes as well.
void FillDivisors(const DecoderState& state, const TableSlice& table, const TableArrays& arrays) {
  for (int32_t f : table.features) {
    const FeatureSlice& feature = state.batch->features[static_cast<size_t>(f)];
    int64_t* divisors = arrays.divisors + feature.slot_begin;
    if (feature.pooling != v1::POOLING_MEAN) {
      std::fill_n(divisors, feature.slot_count, int64_t{1});
      continue;
    }
    const int64_t* offsets = arrays.offsets + feature.slot_begin;
    for (int64_t bag = 0; bag < feature.bag_count; ++bag) divisors[bag] = offsets[bag + 1] - offsets[bag];
    if (!feature.split_bags) continue;
    const int64_t* bag_sizes = state.bag_sizes + state.bag_size_begins[static_cast<size_t>(f)];
    const int64_t* lengths = state.lengths + feature.bag_begin;
    for (int64_t bag = 0; bag < feature.bag_count; ++bag) divisors[bag] += bag_sizes[bag] - lengths[bag];
  }
}

int64_t CountMarks(const DecodedBatch& batch) {
  int64_t marks = 0;
  for (const TableSlice& table : batch.tables) marks += std::count(table.ids, table.ids + table.id_count, -1);
  return marks;
}

// Rows of flagged features that are not finite. Counts them, remembers the first, and marks their slots if wanted.
struct GradScan {
  int64_t count = 0;
  size_t first_feature = 0;
  int64_t first_row = 0;
};

void ScanGrads(const DecoderState& state, size_t f, std::vector<uint8_t>* bad_slots, GradScan* scan) {
  const FeatureSlice& feature = state.batch->features[f];
  const TableSlice& table = state.TableOf(feature);
  for (int64_t row = 0; row < feature.slot_count; ++row) {
    float* grads = table.grads + (feature.slot_begin + row) * table.dim;
    if (std::all_of(grads, grads + table.dim, [](float g) { return std::isfinite(g); })) continue;
    if (scan->count++ == 0) {
      scan->first_feature = f;
      scan->first_row = row;
    }
    if (bad_slots == nullptr) continue;
    (*bad_slots)[static_cast<size_t>(feature.slot_begin + row)] = 1;
    std::fill_n(grads, table.dim, 0.0f);
  }
}

absl::Status RefuseNonfinite(const DecoderState& state) {
  GradScan scan;
  for (size_t f = 0; f < state.bad_grads.size(); ++f) {
    if (state.bad_grads[f] != 0) ScanGrads(state, f, nullptr, &scan);
  }
  if (scan.count == 0) return absl::OkStatus();
  return NonfiniteGradient(state.Label(scan.first_feature), scan.first_row, scan.count);
}

// The kept arrays of one table, copied so that ids can be taken out.
void CopyKept(const DecodedBatch& kept, size_t t, const TableArrays& arrays, TableSlice* table) {
  const TableSlice& from = kept.tables[t];
  std::copy_n(from.offsets, from.slot_count + 1, arrays.offsets);
  std::copy_n(from.ids, from.id_count, arrays.ids);
  if (from.weights != nullptr) std::copy_n(from.weights, from.id_count, arrays.weights);
  table->offsets = arrays.offsets;
  table->ids = arrays.ids;
  table->weights = arrays.weights;
}

// Per table, which slots DROP_ROWS leaves out; an empty vector = none.
std::vector<std::vector<uint8_t>> DropRows(DecoderState* state) {
  std::vector<std::vector<uint8_t>> bad_slots(state->batch->tables.size());
  for (size_t f = 0; f < state->bad_grads.size(); ++f) {
    if (state->bad_grads[f] == 0) continue;
    const FeatureSlice& feature = state->batch->features[f];
    std::vector<uint8_t>& slots = bad_slots[static_cast<size_t>(feature.table)];
    slots.resize(static_cast<size_t>(state->TableOf(feature).slot_count));
    GradScan scan;
    ScanGrads(*state, f, &slots, &scan);
    state->batch->dropped_rows += scan.count;
    state->batch->tables[static_cast<size_t>(feature.table)].dropped_rows += scan.count;
  }
  return bad_slots;
}

void FinishTokenPush(DecoderState* state, const std::vector<std::vector<uint8_t>>& bad_slots) {
  DecodedBatch& batch = *state->batch;
  if (state->kept->marked_ids == 0 && batch.dropped_rows == 0) {
    batch.kept = state->kept;
    return;
  }
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    CopyKept(*state->kept, t, state->arrays[t], &batch.tables[t]);
    Compact(&batch, &batch.tables[t], state->arrays[t], true, bad_slots[t].empty() ? nullptr : &bad_slots[t]);
  }
  // Lengths and divisors are still the kept lookup's: they were taken over unchanged.
  batch.memory = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<const DecodedBatch>>>(
      std::move(batch.memory), state->kept);
}

}  // namespace

absl::Status FinishLengths(DecoderState* state) {
  if (state->bad_lengths) return NameBadLength(*state);
  DecodedBatch& batch = *state->batch;
  if (state->length_sum != batch.id_count) return BadLengthSum(state->length_sum, batch.id_count);
  int64_t at = 0;
  for (size_t f = 0; f < batch.features.size(); ++f) {
    FeatureSlice& feature = batch.features[f];
    const int64_t* lengths = state->lengths + feature.bag_begin;
    state->id_positions[f] = at;
    for (int64_t bag = 0; bag < feature.bag_count; ++bag) feature.id_count += lengths[bag];
    at += feature.id_count;
  }
  return absl::OkStatus();
}

absl::Status FinishIds(DecoderState* state) {
  const bool drop = state->batch->out_of_range_policy == v1::OUT_OF_RANGE_POLICY_DROP;
  IdScan scan;
  for (size_t f = 0; f < state->bad_ids.size(); ++f) {
    if (state->bad_ids[f] != 0) ScanIds(state, f, drop, &scan);
  }
  if (scan.out_of_range > 0 && !drop) {
    scan.bad.count = scan.out_of_range;
    const FeatureSlice& feature = state->batch->features[scan.first_bad_feature];
    return IdOutOfRange(state->Label(scan.first_bad_feature), scan.bad, state->TableOf(feature).row_count);
  }
  if (scan.misrouted == 0) return absl::OkStatus();
  scan.stray.count = scan.misrouted;
  const TableSlice& table = state->TableOf(state->batch->features[scan.first_misrouted_feature]);
  return MisroutedId(state->Label(scan.first_misrouted_feature), scan.stray, table.row_begin, table.row_end);
}

absl::Status FinishWeights(DecoderState* state) {
  for (size_t f = 0; f < state->bad_weights.size(); ++f) {
    if (state->bad_weights[f] == 0) continue;
    const FeatureSlice& feature = state->batch->features[f];
    const float* weights = state->ArraysOf(feature).weights + feature.id_begin;
    for (int64_t i = 0; i < feature.id_count; ++i) {
      if (!std::isfinite(weights[i])) return BadWeight(state->Label(f), state->id_positions[f] + i, weights[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status FinishBagSizes(DecoderState* state) {
  for (size_t f = 0; f < state->batch->features.size(); ++f) {
    const FeatureSlice& feature = state->batch->features[f];
    if (!feature.split_bags) continue;
    for (int64_t bag = 0; bag < feature.bag_count; ++bag) {
      const int64_t entry = state->bag_size_begins[f] + bag;
      const int64_t length = state->lengths[feature.bag_begin + bag];
      if (state->bag_sizes[entry] < length) {
        return BadBagSize(state->Label(f), entry, bag, state->bag_sizes[entry], length);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status FinishBatch(DecoderState* state) {
  DecodedBatch& batch = *state->batch;
  if (state->nonfinite_policy == v1::NONFINITE_POLICY_REFUSE) EMBPS_RETURN_IF_ERROR(RefuseNonfinite(*state));
  std::vector<std::vector<uint8_t>> bad_slots(batch.tables.size());
  if (state->nonfinite_policy == v1::NONFINITE_POLICY_DROP_ROWS) bad_slots = DropRows(state);
  if (state->kept != nullptr) {
    FinishTokenPush(state, bad_slots);
    return absl::OkStatus();
  }
  const bool has_marks = batch.dropped_ids + batch.pruned_ids > 0;
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    TableSlice& table = batch.tables[t];
    if (has_marks) Compact(&batch, &table, state->arrays[t], state->push, nullptr);
    if (table.has_mean) FillDivisors(*state, table, state->arrays[t]);
    if (!bad_slots[t].empty()) Compact(&batch, &table, state->arrays[t], state->push, &bad_slots[t]);
  }
  if (has_marks && !state->push) batch.marked_ids = CountMarks(batch);
  return absl::OkStatus();
}

}  // namespace embps::wire
