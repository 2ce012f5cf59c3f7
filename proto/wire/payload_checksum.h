// XXH64 with seed 0: `payload_checksum` of a message (its bulk fields in order of number, without tags and lengths),
// and the digest of a whole push before it is split.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "proto/wire/bulk_encode.h"
#include "proto/wire/bulk_message.h"

namespace embps::wire {

// Streaming XXH64, seed 0.
class Digest64 {
 public:
  Digest64();
  ~Digest64();
  Digest64(const Digest64&) = delete;
  Digest64& operator=(const Digest64&) = delete;

  void Update(const void* data, size_t bytes);
  template <class T>
  void UpdateValue(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    Update(&value, sizeof(value));
  }
  // Of everything so far.
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t PayloadChecksum(const BulkMessage& message);
uint64_t PayloadChecksum(absl::Span<const OutBulk> bulk);  // ascending order of index

// CHECKSUM_MISMATCH, naming both values, unless `expected` is the checksum of the bulk of `message`.
absl::Status VerifyChecksum(const BulkMessage& message, uint64_t expected);

// For every request and frame type with an `optional fixed64 payload_checksum`: verified if it is there.
template <class T>
absl::Status VerifyChecksum(const T& header, const BulkMessage& message) {
  return header.has_payload_checksum() ? VerifyChecksum(message, header.payload_checksum()) : absl::OkStatus();
}

}  // namespace embps::wire
