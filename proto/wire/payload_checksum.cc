#include "proto/wire/payload_checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/error.h"

namespace embps::wire {

struct Digest64::State {
  XXH64_state_t xxh;
};

Digest64::Digest64() : state_(std::make_unique<State>()) { XXH64_reset(&state_->xxh, 0); }
Digest64::~Digest64() = default;

void Digest64::Update(const void* data, size_t bytes) {
  if (bytes > 0) XXH64_update(&state_->xxh, data, bytes);
}

uint64_t Digest64::value() const { return XXH64_digest(&state_->xxh); }

uint64_t PayloadChecksum(const BulkMessage& message) {
  Digest64 digest;
  for (int i = 0; i < kBulkFieldCount; ++i) {
    for (absl::string_view part : message.bulk(i).parts) digest.Update(part.data(), part.size());
  }
  return digest.value();
}

uint64_t PayloadChecksum(absl::Span<const OutBulk> bulk) {
  Digest64 digest;
  for (const OutBulk& field : bulk) {
    for (const OutPiece& piece : field.pieces) digest.Update(piece.bytes.data(), piece.bytes.size());
  }
  return digest.value();
}

absl::Status VerifyChecksum(const BulkMessage& message, uint64_t expected) {
  const uint64_t actual = PayloadChecksum(message);
  if (actual == expected) return absl::OkStatus();
  return MakeError(Reason::kChecksumMismatch,
                   absl::StrFormat("payload_checksum: the message says %016x, its %d bulk bytes have %016x", expected,
                                   message.payload_bytes(), actual));
}

}  // namespace embps::wire
