// The client's side of a data call to one node: header and arrays -> one message, or frames of at most max_frame_bytes
// of payload. Arrays go out as views where the wire's layout is the caller's; strided gradients and ids of another
// width are copied frame by frame, so that a large push is never held twice.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "embps/v1/embedding.pb.h"
#include "proto/wire/bulk_encode.h"
#include "proto/wire/jagged_check.h"

namespace embps::wire {

// What one node gets of one feature, validated. Everything is borrowed until the call is over.
struct FeatureArrays {
  absl::Span<const int64_t> lengths;    // [B_f]
  IdView ids;                           // [L_f], any width; values fit the table's
  const float* weights = nullptr;       // [L_f] if the header says weighted
  absl::Span<const int64_t> bag_sizes;  // [B_f] if split_bags
  GradView grads;                       // pushes: rows = B_f pooled, L_f sequence; of the header's grad_dtype
};

class RequestEncoder {
 public:
  // features[i] belongs to header.features(i), whose id_type says the width on the wire. Fills in id_count and
  // total_bytes. A push with a lookup_token sends gradients only.
  RequestEncoder(v1::LookupHeader header, std::vector<FeatureArrays> features);
  RequestEncoder(v1::PushGradHeader header, std::vector<FeatureArrays> features);
  ~RequestEncoder();
  RequestEncoder(RequestEncoder&&) noexcept;
  RequestEncoder& operator=(RequestEncoder&&) noexcept;

  // Every message then carries payload_checksum.
  void set_with_checksum(bool with_checksum);

  // Of the whole call: unary if it is at most the server's max_unary_bytes.
  int64_t payload_bytes() const;
  // The next message, header in the first: LookupRequest and LookupStreamRequest (PushGradRequest and
  // PushGradStreamRequest) have the same bytes. Unary: call once with max_payload_bytes >= payload_bytes().
  // max_payload_bytes >= 16 KiB, the widest gradient row. At least one message, even without payload.
  OutMessage Next(int64_t max_payload_bytes);
  bool done() const;
  // Starts over, for a retry.
  void Rewind();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embps::wire
