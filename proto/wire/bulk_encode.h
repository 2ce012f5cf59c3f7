// The way out: a message with bulk fields as a list of pieces, most of them views. The bytes equal what the generated
// serialiser would write if the bulk were fields of the message.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/wire/bulk_message.h"

namespace embps::wire {

// `owner` keeps `bytes` alive. Null: the caller of the encoder owns them and keeps them until the call is over.
struct OutPiece {
  absl::string_view bytes;
  std::shared_ptr<const void> owner;
};

// Concatenated, the serialised message.
using OutMessage = std::vector<OutPiece>;

// One bulk field of a message: number 100 + index, contents = the pieces one after another.
struct OutBulk {
  int index = 0;
  std::vector<OutPiece> pieces;
};

// A piece that owns a copy of `bytes`.
OutPiece OwnedPiece(std::string bytes);

// `message` without its bulk fields (they must be empty), then `bulk` in ascending order of index; fields without bytes
// are left out, as the generated serialiser does. Adjacent framing and header bytes are one owned piece.
OutMessage EncodeBulkMessage(const google::protobuf::MessageLite& message, absl::Span<const OutBulk> bulk);

size_t TotalBytes(const OutMessage& message);
// For tests and small messages.
std::string Concatenate(const OutMessage& message);

}  // namespace embps::wire
