// A received message as header bytes and views of its bulk fields: what the generated parser would read, without
// copying the bulk. Input is the pieces that gRPC received, cut anywhere.
//
// Grammar (protobuf): message = (tag payload)*; a field numbered 100..104 of wire type LEN that the message declares is
// bulk, everything else is header, copied in its order. A bulk field given twice: the last one counts. Unknown fields
// are skipped. Accepts exactly what the generated parser accepts, up to the limits below.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace google::protobuf {
class Descriptor;
class Message;
class MessageLite;
}  // namespace google::protobuf

namespace embps::wire {

inline constexpr int kFirstBulkField = 100;
inline constexpr int kBulkFieldCount = 5;

// Index of a bulk field = its number - kFirstBulkField. Requests use the first five, lookup replies have their blocks
// at 0, row messages use ids at 0, rows at 1, state0 at 2, state1 at 3 (requests) or rows at 0 and on (replies).
enum BulkIndex : int { kLengths = 0, kIds = 1, kWeights = 2, kBagSizes = 3, kGrads = 4, kBlocks = 0 };

// The bytes of one bulk field, in order. They have no alignment: an element may straddle two parts.
struct BulkSpans {
  std::vector<absl::string_view> parts;
  size_t bytes = 0;
};

struct MessageLimits {
  size_t max_header_bytes = 1 << 20;     // everything but bulk; over it: MALFORMED
  size_t max_message_bytes = INT32_MAX;  // protobuf's own bound; over it: MALFORMED
};

// What the codec knows about a message type: its name for errors and which fields are bulk.
struct MessageShape {
  explicit MessageShape(const google::protobuf::Descriptor* descriptor);

  const google::protobuf::Descriptor* descriptor;
  std::string name;  // "LookupRequest"
  bool is_bulk[kBulkFieldCount] = {};
};

class BulkMessage {
 public:
  // Keeps views of `pieces`: the caller keeps their bytes alive and unchanged. May be called again; then the old
  // contents are gone. Error: INVALID_ARGUMENT MALFORMED, naming the message and the byte where it went wrong.
  absl::Status Split(const MessageShape& shape, absl::Span<const absl::string_view> pieces,
                     const MessageLimits& limits = {});

  // The bytes of all fields but the bulk ones.
  const std::string& header() const { return header_; }
  // Field 100 + index; empty when absent.
  const BulkSpans& bulk(int index) const { return bulk_[index]; }
  // Bytes of all bulk fields together: the payload that limits and total_bytes speak of.
  size_t payload_bytes() const;

  // For tests and callers that hold arrays already.
  void SetBulk(int index, BulkSpans spans) { bulk_[index] = std::move(spans); }

 private:
  std::string header_;
  BulkSpans bulk_[kBulkFieldCount];
};

}  // namespace embps::wire
