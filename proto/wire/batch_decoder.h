// Decodes a Lookup or a PushGrad, whole or frame by frame, into a DecodedBatch. One fused pass copies and validates
// each tensor; nothing may be used before everything was checked. Which bad value is named does not depend on how the
// payload was cut.
//
//   BatchDecoder decoder(limits);
//   decoder.Begin(header, resolver);             // header checks and sizes; allocates nothing that grows with the
//   batch
//   ... admit decoder.memory_bytes() ...
//   decoder.Allocate(fn);
//   decoder.Append(frame); ...  until complete() // frames may cut tensors anywhere; tensors in order of field number
//   StatusOr<shared_ptr<DecodedBatch>> batch = decoder.Finish();
//
// Errors, each naming the field, the feature index, the table and the first bad position with both sizes:
//   BAD_JAGGED_LAYOUT    counts, lengths, sums, weights, bag_sizes, pooling, misrouted rows, declared against sent
//   bytes DTYPE_UNSUPPORTED    an enum value or id width that is not the table's; split_bags with an output other than
//   FP32 DIM_MISMATCH         Feature.dim is not D TABLE_NOT_FOUND, PLAN_STALE ID_OUT_OF_RANGE      metadata table,
//   feature, first_bad_id, position, count, rows; raised when all ids have arrived NONFINITE_GRADIENT   metadata table,
//   feature, first_row, count; raised by Finish
// After an error the decoder is only good for destruction. Not thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/wire/batch_layout.h"
#include "proto/wire/bulk_message.h"

namespace embps::wire {

// Gives `bytes` >= 1 of uninitialised memory, 64-byte aligned, alive as long as the pointer.
using AllocateFn = std::function<absl::StatusOr<std::shared_ptr<void>>(int64_t bytes)>;

class BatchDecoder {
 public:
  explicit BatchDecoder(const DecodeLimits& limits = {});
  ~BatchDecoder();
  BatchDecoder(BatchDecoder&&) noexcept;
  BatchDecoder& operator=(BatchDecoder&&) noexcept;

  // header.total_bytes = 0 means not declared; else it must equal the payload that the header implies.
  absl::Status Begin(const v1::LookupHeader& header, const TableResolver& resolver);
  // kept: what header.lookup_token stands for, or null. Then only gradients are sent, the header's features, policy and
  // counts must be the kept lookup's, and the batch borrows its ids (DecodedBatch::kept) unless rows or marked ids had
  // to be taken out, which needs a copy.
  absl::Status Begin(const v1::PushGradHeader& header, const TableResolver& resolver,
                     std::shared_ptr<const DecodedBatch> kept = nullptr);

  // After Begin. What Allocate takes: an upper bound, exact but for alignment (64 bytes per table and array) unless
  // there are sequence features, whose share of the ids is not known yet.
  int64_t memory_bytes() const;
  // After Begin. Upper bound on the elements of the reply, sum over features of rows * D; exact without sequence
  // features.
  int64_t output_elements() const;
  // After Begin: features with their tables and bag counts; slots and ids once all lengths have arrived.
  const DecodedBatch& layout() const;

  absl::Status Allocate(const AllocateFn& allocate);
  absl::Status Append(const BulkMessage& frame);
  // All declared bytes have arrived.
  bool complete() const;
  // Says what is missing if !complete(). From Allocate on.
  absl::Status CheckComplete() const;
  // As CheckComplete, and what only the whole batch shows. Once.
  absl::StatusOr<std::shared_ptr<DecodedBatch>> Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embps::wire
