// Random and not so random messages for the codec's tests and fuzzers, and the way to cut them up.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "embps/v1/embedding.pb.h"
#include "proto/wire/batch_decoder.h"
#include "proto/wire/bulk_message.h"
#include "tests/fuzz/reference_decode.h"

namespace embps::wire {

using Random = std::mt19937_64;

// Tables that the cases use: uid 1 to 4; mixed D, id widths and node row ranges.
const TableInfo* CaseTable(uint64_t table_uid);
DecodeLimits CaseLimits();

struct CaseOptions {
  bool bad_ids = false;    // some ids outside [0, R), -1 among them; policy DROP
  bool nonfinite = false;  // some gradients not finite; policy DROP_ROWS
  bool sequences = true;
  int max_features = 5;
  int max_batch = 6;
};

// Valid requests.
v1::LookupRequest RandomLookup(Random& random, const CaseOptions& options);
v1::PushGradRequest RandomPush(Random& random, const CaseOptions& options);

// Pieces of a byte string in memory of their own, cut at random, empty ones among them, at random alignment.
class CutBytes {
 public:
  CutBytes(absl::string_view bytes, Random& random, int max_pieces = 6);
  const std::vector<absl::string_view>& pieces() const { return pieces_; }

 private:
  std::vector<std::unique_ptr<std::string>> memory_;
  std::vector<absl::string_view> pieces_;
};

// Memory for a decoder: 64-byte aligned, poisoned, with guards behind it.
class GuardedMemory {
 public:
  AllocateFn allocator();
  int64_t allocated_bytes() const { return bytes_; }
  bool intact() const;

 private:
  std::shared_ptr<char> memory_;
  int64_t bytes_ = 0;
};

// The bulk strings of a request in field order; grads only for pushes.
std::vector<std::string> BulkOf(const v1::LookupRequest& request);
std::vector<std::string> BulkOf(const v1::PushGradRequest& request);

// Feeds the bulk to a decoder that has begun and allocated, in `frames` frames cut anywhere.
absl::Status AppendInFrames(BatchDecoder* decoder, const std::vector<std::string>& bulk, int frames, Random& random);

// Begin, Allocate, AppendInFrames, Finish. `memory` must outlive the batch.
absl::StatusOr<std::shared_ptr<DecodedBatch>> Decode(const v1::LookupRequest& request, int frames, Random& random,
                                                     GuardedMemory* memory);
absl::StatusOr<std::shared_ptr<DecodedBatch>> Decode(const v1::PushGradRequest& request, int frames, Random& random,
                                                     GuardedMemory* memory,
                                                     std::shared_ptr<const DecodedBatch> kept = nullptr);

// "" if equal, else what differs.
std::string Difference(const DecodedBatch& batch, const ReferenceBatch& expected, bool push);

}  // namespace embps::wire
