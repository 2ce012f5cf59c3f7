#include "proto/wire/bulk_encode.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>

#include <utility>

#include "proto/base/check.h"
#include "proto/wire/field_cursor.h"

namespace embps::wire {
namespace {

void AppendVarint(uint32_t value, std::string* out) {
  uint8_t bytes[5];
  const uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint32ToArray(value, bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

}  // namespace

OutPiece OwnedPiece(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {*owner, owner};
}

OutMessage EncodeBulkMessage(const google::protobuf::MessageLite& message, absl::Span<const OutBulk> bulk) {
  OutMessage out;
  std::string framing = message.SerializeAsString();
  int last_index = -1;
  for (const OutBulk& field : bulk) {
    EMBPS_CHECK(field.index > last_index && field.index < kBulkFieldCount);
    last_index = field.index;
    const size_t bytes = TotalBytes(field.pieces);
    if (bytes == 0) continue;
    EMBPS_CHECK(bytes <= INT32_MAX);
    AppendVarint(static_cast<uint32_t>(kFirstBulkField + field.index) << 3 | kLen, &framing);
    AppendVarint(static_cast<uint32_t>(bytes), &framing);
    out.push_back(OwnedPiece(std::move(framing)));
    framing.clear();
    for (const OutPiece& piece : field.pieces) {
      if (!piece.bytes.empty()) out.push_back(piece);
    }
  }
  if (!framing.empty()) out.push_back(OwnedPiece(std::move(framing)));
  return out;
}

size_t TotalBytes(const OutMessage& message) {
  size_t bytes = 0;
  for (const OutPiece& piece : message) bytes += piece.bytes.size();
  return bytes;
}

std::string Concatenate(const OutMessage& message) {
  std::string bytes;
  bytes.reserve(TotalBytes(message));
  for (const OutPiece& piece : message) bytes.append(piece.bytes.data(), piece.bytes.size());
  return bytes;
}

}  // namespace embps::wire
