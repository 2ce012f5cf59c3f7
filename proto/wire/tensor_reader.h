// One bulk tensor as it arrives: segments of equal elements, cut into frames and slices at any byte. Internal to
// proto/wire.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/check.h"
#include "proto/wire/bulk_message.h"

namespace embps::wire {

struct TensorSegment {
  int64_t items = 0;
  int32_t item_bytes = 0;  // 1 to 8
};

class TensorReader {
 public:
  void Expect(std::vector<TensorSegment> segments) {
    segments_ = std::move(segments);
    for (const TensorSegment& segment : segments_) expected_bytes_ += segment.items * segment.item_bytes;
  }

  int64_t expected_bytes() const { return expected_bytes_; }
  int64_t arrived_bytes() const { return arrived_bytes_; }
  bool complete() const { return arrived_bytes_ == expected_bytes_; }

  // Calls run(segment, first_item, source, count) for every stretch of whole items inside one segment; an item that
  // straddles a cut comes alone. `source` has no alignment. Requires spans.bytes <= what is still expected.
  template <class Run>
  void Append(const BulkSpans& spans, Run&& run) {
    EMBPS_CHECK(static_cast<int64_t>(spans.bytes) <= expected_bytes_ - arrived_bytes_);
    arrived_bytes_ += static_cast<int64_t>(spans.bytes);
    for (absl::string_view part : spans.parts) {
      while (!part.empty()) AppendSome(&part, run);
    }
  }

 private:
  template <class Run>
  void AppendSome(absl::string_view* part, Run&& run) {
    while (item_ == segments_[segment_].items) ++segment_, item_ = 0;
    const TensorSegment& segment = segments_[segment_];
    const auto item_bytes = static_cast<size_t>(segment.item_bytes);
    if (carried_ == 0 && part->size() >= item_bytes) {
      const auto count = std::min<int64_t>(static_cast<int64_t>(part->size() / item_bytes), segment.items - item_);
      run(segment_, item_, part->data(), static_cast<size_t>(count));
      item_ += count;
      part->remove_prefix(static_cast<size_t>(count) * item_bytes);
      return;
    }
    const size_t n = std::min(item_bytes - carried_, part->size());
    std::memcpy(carry_ + carried_, part->data(), n);
    carried_ += n;
    part->remove_prefix(n);
    if (carried_ < item_bytes) return;
    carried_ = 0;
    run(segment_, item_++, static_cast<const char*>(carry_), size_t{1});
  }

  std::vector<TensorSegment> segments_;
  int64_t expected_bytes_ = 0, arrived_bytes_ = 0;
  size_t segment_ = 0;  // that item_ lies in
  int64_t item_ = 0;
  char carry_[8];
  size_t carried_ = 0;  // bytes of an item whose rest has not arrived
};

}  // namespace embps::wire
