// The client's side of a lookup reply: blocks, in whatever order they come, copied straight into the caller's output.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "embps/v1/embedding.pb.h"
#include "proto/wire/bulk_message.h"

namespace embps::wire {

// Where the rows of one feature of the call go: row r at out + r * row_stride_bytes, dim elements of the output type.
struct OutputFeature {
  int64_t row_count = 0;  // bags if pooled, ids if sequence
  int32_t dim = 0;
  void* out = nullptr;
  int64_t row_stride_bytes = 0;
};

struct ReplyOptions {
  v1::DataType output_dtype = v1::DATA_TYPE_FP32;
  bool streaming_stores = false;  // write past the cache: for outputs larger than it
};

class ReplyDecoder {
 public:
  // features in request order.
  ReplyDecoder(std::vector<OutputFeature> features, const ReplyOptions& options);
  ~ReplyDecoder();
  ReplyDecoder(ReplyDecoder&&) noexcept;
  ReplyDecoder& operator=(ReplyDecoder&&) noexcept;

  // Checks the runs of one reply or frame against the outputs, then copies. Nothing outside the outputs is written,
  // whatever the server sends. Error: INTERNAL with reason MALFORMED: a run outside its feature, another dim, rows
  // twice, blocks of the wrong size.
  absl::Status Append(const v1::LookupResponse& header, const BulkMessage& message);
  absl::Status Append(const v1::LookupStreamResponse& header, const BulkMessage& message);

  // Every row of every feature has arrived once.
  bool complete() const;
  // OK if complete, else INTERNAL naming the first feature that lacks rows.
  absl::Status CheckComplete() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace embps::wire
