// The one way from received bytes to a message, for every method: a generated message or MALFORMED, never a crash and
// never an UNIMPLEMENTED without text.
//
//   control methods    StatusOr<v1::CreateTablesRequest> request = ParseMessage<v1::CreateTablesRequest>(pieces);
//   data methods       v1::LookupRequest header; BulkMessage bulk;
//                      ParseBulkMessage(pieces, &header, &bulk);  // header's bulk fields stay empty
#pragma once
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/base/status_macros.h"
#include "proto/wire/bulk_message.h"

namespace embps::wire {

// Made once per message type.
template <class T>
const MessageShape& ShapeOf() {
  static const MessageShape shape(T::descriptor());
  return shape;
}

namespace internal {
// Parse all fields, bulk ones included, into *message, which must be empty.
absl::Status ParseWhole(const MessageShape& shape, absl::Span<const absl::string_view> pieces,
                        const MessageLimits& limits, google::protobuf::Message* message);
absl::Status ParseHeader(const MessageShape& shape, const BulkMessage& bulk, google::protobuf::Message* message);
}  // namespace internal

// Everything in one message object. For messages that are small or whose bulk may be copied.
// Error: MALFORMED, naming the message, the byte or the field, and what is wrong with it.
template <class T>
absl::StatusOr<T> ParseMessage(absl::Span<const absl::string_view> pieces, const MessageLimits& limits = {}) {
  T message;
  EMBPS_RETURN_IF_ERROR(internal::ParseWhole(ShapeOf<T>(), pieces, limits, &message));
  return message;
}

// Header fields into *header (cleared first), bulk fields as views of `pieces` into *bulk. Same errors.
template <class T>
absl::Status ParseBulkMessage(absl::Span<const absl::string_view> pieces, T* header, BulkMessage* bulk,
                              const MessageLimits& limits = {}) {
  EMBPS_RETURN_IF_ERROR(bulk->Split(ShapeOf<T>(), pieces, limits));
  return internal::ParseHeader(ShapeOf<T>(), *bulk, header);
}

}  // namespace embps::wire
