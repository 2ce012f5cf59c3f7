#include "proto/wire/field_cursor.h"

namespace embps::wire {

bool FieldCursor::Varint(int max_bytes, uint64_t* value, std::string* raw) {
  *value = 0;
  for (int i = 0; i < max_bytes; ++i) {
    unsigned char byte = 0;
    if (!Take(1, [&](absl::string_view piece) { byte = static_cast<unsigned char>(piece[0]); })) return false;
    raw->push_back(static_cast<char>(byte));
    *value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

bool FieldCursor::Tag(uint32_t* tag, std::string* raw) {
  uint64_t value = 0;
  if (!Varint(5, &value, raw)) return false;
  *tag = static_cast<uint32_t>(value);
  return (*tag >> 3) != 0;
}

const char* FieldCursor::CopyFlatPayload(uint32_t tag, size_t max_bytes, std::string* out) {
  const auto append = [&](absl::string_view piece) { out->append(piece.data(), piece.size()); };
  const auto fits = [&](uint64_t bytes) { return out->size() <= max_bytes && bytes <= max_bytes - out->size(); };
  constexpr const char* kTooLarge = "header fields over the limit";
  uint64_t value = 0;
  switch (tag & 7) {
    case kVarint:
      if (!fits(10)) return kTooLarge;
      return Varint(10, &value, out) ? nullptr : "truncated or overlong varint";
    case kFixed64:
      if (!fits(8)) return kTooLarge;
      return Take(8, append) ? nullptr : "truncated fixed64";
    case kFixed32:
      if (!fits(4)) return kTooLarge;
      return Take(4, append) ? nullptr : "truncated fixed32";
    case kLen:
      if (!Varint(5, &value, out)) return "truncated or overlong length";
      if (value > left_) return "the field declares more bytes than are left";
      if (!fits(value)) return kTooLarge;
      Take(value, append);
      return nullptr;
    default:
      return "unknown wire type";
  }
}

const char* FieldCursor::CopyPayload(uint32_t tag, size_t max_bytes, std::string* out) {
  int depth = 0;
  for (;;) {
    // Whether group ends match their starts, and how deep they may nest, is left to the generated parser.
    if ((tag & 7) == kGroupStart) {
      ++depth;
    } else if ((tag & 7) == kGroupEnd) {
      if (depth == 0) return "end of a group that never began";
      --depth;
    } else if (const char* fault = CopyFlatPayload(tag, max_bytes, out); fault != nullptr) {
      return fault;
    }
    if (depth == 0) return nullptr;
    if (out->size() > max_bytes) return "header fields over the limit";
    if (!Tag(&tag, out)) return "bad tag or unterminated group";
  }
}

}  // namespace embps::wire
