#include "proto/wire/parse_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/wire/field_cursor.h"

namespace embps::wire::internal {
namespace {

// Names the first top-level field that the generated parser does not take on its own. The framing is known to be sound.
absl::Status NameBadField(const MessageShape& shape, absl::string_view bytes, google::protobuf::Message* scratch) {
  std::string where = "the fields do not parse together";
  FieldCursor in(absl::MakeConstSpan(&bytes, 1));
  while (!in.done()) {
    std::string field;
    uint32_t tag = 0;
    if (!in.Tag(&tag, &field) || in.CopyPayload(tag, bytes.size(), &field) != nullptr) break;
    if (scratch->ParseFromString(field)) continue;
    const auto* known = shape.descriptor->FindFieldByNumber(static_cast<int>(tag >> 3));
    where = absl::StrCat("field ", tag >> 3, known == nullptr ? "" : " (", known == nullptr ? "" : known->name(),
                         known == nullptr ? "" : ")", " does not parse");
    break;
  }
  return MakeError(Reason::kMalformed, absl::StrCat(shape.name, ": ", where), {{"message", shape.name}});
}

absl::Status ParseBytes(const MessageShape& shape, absl::string_view bytes, google::protobuf::Message* message) {
  if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return NameBadField(shape, bytes, message);
}

}  // namespace

absl::Status ParseWhole(const MessageShape& shape, absl::Span<const absl::string_view> pieces,
                        const MessageLimits& limits, google::protobuf::Message* message) {
  BulkMessage framing;  // finds what is wrong with the framing, and says where
  EMBPS_RETURN_IF_ERROR(framing.Split(shape, pieces, limits));
  if (pieces.size() == 1) return ParseBytes(shape, pieces[0], message);
  std::string bytes;
  for (absl::string_view piece : pieces) bytes.append(piece.data(), piece.size());
  return ParseBytes(shape, bytes, message);
}

absl::Status ParseHeader(const MessageShape& shape, const BulkMessage& bulk, google::protobuf::Message* message) {
  return ParseBytes(shape, bulk.header(), message);
}

}  // namespace embps::wire::internal
