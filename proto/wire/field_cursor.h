// A read position in received pieces that understands protobuf's framing and nothing else. Internal to proto/wire.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace embps::wire {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLen = 2, kGroupStart = 3, kGroupEnd = 4, kFixed32 = 5 };

class FieldCursor {
 public:
  explicit FieldCursor(absl::Span<const absl::string_view> pieces) : pieces_(pieces) {
    for (absl::string_view piece : pieces) left_ += piece.size();
    SkipEmpty();
  }

  bool done() const { return left_ == 0; }
  size_t position() const { return position_; }
  size_t left() const { return left_; }

  // Passes the next `count` bytes to sink(absl::string_view) piece by piece; false, and nothing taken, if there are
  // fewer.
  template <class Sink>
  bool Take(uint64_t count, Sink&& sink) {
    if (count > left_) return false;
    while (count > 0) {
      const absl::string_view piece = pieces_[index_];
      const size_t n = std::min<uint64_t>(count, piece.size() - offset_);
      sink(piece.substr(offset_, n));
      offset_ += n;
      position_ += n;
      left_ -= n;
      count -= n;
      SkipEmpty();
    }
    return true;
  }

  // Appends the varint's own bytes to `raw`. max_bytes: 5 for tags and lengths, 10 for values. Bits beyond 64 are lost.
  bool Varint(int max_bytes, uint64_t* value, std::string* raw);

  // Reads a tag as the generated parser does (bits beyond 32 are lost). False: truncated, too long, or field number 0.
  bool Tag(uint32_t* tag, std::string* raw);

  // Appends the payload of a field whose tag was read to `out`, up to out->size() = max_bytes; groups with all they
  // hold and their end tag. Null if all went well, else what is wrong.
  const char* CopyPayload(uint32_t tag, size_t max_bytes, std::string* out);

 private:
  void SkipEmpty() {
    while (index_ < pieces_.size() && offset_ == pieces_[index_].size()) ++index_, offset_ = 0;
  }
  const char* CopyFlatPayload(uint32_t tag, size_t max_bytes, std::string* out);

  const absl::Span<const absl::string_view> pieces_;
  size_t index_ = 0, offset_ = 0;
  size_t position_ = 0, left_ = 0;  // bytes
};

}  // namespace embps::wire
