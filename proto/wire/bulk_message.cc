#include "proto/wire/bulk_message.h"

#include <google/protobuf/descriptor.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/wire/field_cursor.h"

namespace embps::wire {
namespace {

absl::Status Malformed(const MessageShape& shape, size_t position, uint32_t tag, absl::string_view what) {
  const std::string field = tag == 0 ? "" : absl::StrCat(" in field ", tag >> 3);
  return MakeError(Reason::kMalformed, absl::StrCat(shape.name, ": ", what, field, ", byte ", position),
                   {{"message", shape.name}});
}

}  // namespace

MessageShape::MessageShape(const google::protobuf::Descriptor* descriptor_in)
    : descriptor(descriptor_in), name(descriptor_in->name()) {
  for (int i = 0; i < kBulkFieldCount; ++i) {
    const auto* field = descriptor->FindFieldByNumber(kFirstBulkField + i);
    is_bulk[i] =
        field != nullptr && !field->is_repeated() && field->type() == google::protobuf::FieldDescriptor::TYPE_BYTES;
  }
}

absl::Status BulkMessage::Split(const MessageShape& shape, absl::Span<const absl::string_view> pieces,
                                const MessageLimits& limits) {
  header_.clear();
  for (BulkSpans& spans : bulk_) spans = {};
  FieldCursor in(pieces);
  if (in.left() > limits.max_message_bytes) {
    return Malformed(shape, 0, 0, absl::StrCat(in.left(), " bytes, limit ", limits.max_message_bytes));
  }
  std::string raw;
  while (!in.done()) {
    const size_t start = in.position();
    raw.clear();
    uint32_t tag = 0;
    if (!in.Tag(&tag, &raw)) return Malformed(shape, start, 0, "bad tag");
    const uint32_t index = (tag >> 3) - kFirstBulkField;  // wraps for smaller numbers
    if ((tag & 7) != kLen || index >= kBulkFieldCount || !shape.is_bulk[index]) {
      header_ += raw;
      const char* fault = in.CopyPayload(tag, limits.max_header_bytes, &header_);
      if (fault == nullptr && header_.size() > limits.max_header_bytes) fault = "header fields over the limit";
      if (fault != nullptr) return Malformed(shape, start, tag, fault);
      continue;
    }
    uint64_t bytes = 0;
    if (!in.Varint(5, &bytes, &raw)) return Malformed(shape, start, tag, "truncated or overlong length");
    BulkSpans spans;
    spans.bytes = bytes;
    const size_t left = in.left();
    if (!in.Take(bytes, [&](absl::string_view piece) { spans.parts.push_back(piece); })) {
      return Malformed(shape, start, tag, absl::StrCat("truncated: ", bytes, " bytes declared, ", left, " left"));
    }
    bulk_[index] = std::move(spans);
  }
  return absl::OkStatus();
}

size_t BulkMessage::payload_bytes() const {
  size_t bytes = 0;
  for (const BulkSpans& spans : bulk_) bytes += spans.bytes;
  return bytes;
}

}  // namespace embps::wire
