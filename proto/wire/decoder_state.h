// What the parts of the batch decoder share: header checks (batch_header.cc), memory (batch_arena.cc), arrival
// (batch_decoder.cc) and the end (batch_finish.cc). Internal to proto/wire.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "proto/wire/batch_layout.h"
#include "proto/wire/jagged_check.h"

namespace embps::wire {

// The writable arrays behind TableSlice's pointers.
struct TableArrays {
  int64_t* offsets = nullptr;
  int64_t* ids = nullptr;
  float* weights = nullptr;
  int64_t* divisors = nullptr;
};

struct DecoderState {
  DecodeLimits limits;
  bool push = false;
  v1::DataType grad_type = v1::DATA_TYPE_FP32;
  v1::NonfinitePolicy nonfinite_policy = v1::NONFINITE_POLICY_REFUSE;
  int64_t total_bytes = 0;  // declared, 0 = not

  std::shared_ptr<DecodedBatch> batch;
  std::shared_ptr<const DecodedBatch> kept;  // a push by token

  // Per table of the batch.
  std::vector<TableArrays> arrays;
  // Per feature.
  std::vector<int64_t> id_positions;                     // where its ids begin in the ids as sent
  std::vector<int64_t> bag_size_begins;                  // where its bag sizes begin, if split
  std::vector<uint8_t> bad_ids, bad_weights, bad_grads;  // flags set while copying

  bool bad_lengths = false;
  int64_t length_sum = 0;
  int64_t split_bag_count = 0;   // entries of bag_sizes
  int64_t* lengths = nullptr;    // [bag_count]
  int64_t* bag_sizes = nullptr;  // [split_bag_count]

  FeatureLabel Label(size_t feature) const {
    const FeatureSlice& slice = batch->features[feature];
    return {static_cast<int64_t>(feature), "", batch->tables[static_cast<size_t>(slice.table)].name};
  }
  TableSlice& TableOf(const FeatureSlice& feature) const { return batch->tables[static_cast<size_t>(feature.table)]; }
  TableArrays& ArraysOf(const FeatureSlice& feature) { return arrays[static_cast<size_t>(feature.table)]; }
  // A push by token that may have to take ids out of the kept lookup's arrays needs a copy of them.
  bool may_copy_kept() const {
    return kept != nullptr && (nonfinite_policy == v1::NONFINITE_POLICY_DROP_ROWS || kept->marked_ids > 0);
  }
};

// batch_header.cc: checks the header against the tables and fills in everything that it determines.
absl::Status BeginLookup(const v1::LookupHeader& header, const TableResolver& resolver, DecoderState* state);
absl::Status BeginPush(const v1::PushGradHeader& header, const TableResolver& resolver, DecoderState* state);

// batch_arena.cc: one block of memory for all arrays.
int64_t ArenaBytes(const DecoderState& state);
int64_t OutputElements(const DecodedBatch& batch);
// Gives lengths and bag_sizes their places in `memory`; the rest of it is returned.
char* PlaceLengths(DecoderState* state, char* memory);
// Once all lengths are known: slots, ids and the places of all other arrays; fills offsets.
void PlaceTables(DecoderState* state, char* memory);
// The same for a push by token: gradients, and room for copies if they may be needed.
void PlaceTokenPush(DecoderState* state, char* memory);

// batch_finish.cc, in the order in which the tensors are complete.
absl::Status FinishLengths(DecoderState* state);
absl::Status FinishIds(DecoderState* state);
absl::Status FinishWeights(DecoderState* state);
absl::Status FinishBagSizes(DecoderState* state);
absl::Status FinishBatch(DecoderState* state);

}  // namespace embps::wire
