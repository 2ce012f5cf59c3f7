// Between gRPC's byte buffers and the codec's pieces, without a copy either way.
#pragma once
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/mutex.h"
#include "proto/wire/bulk_encode.h"

namespace embps {

// A received message as views. The views live as long as this object.
class ReceivedMessage {
 public:
  // INTERNAL when gRPC cannot show the bytes.
  absl::Status Assign(const grpc::ByteBuffer& buffer);
  void Clear();
  absl::Span<const absl::string_view> pieces() const { return pieces_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<absl::string_view> pieces_;
  int64_t bytes_ = 0;
};

// Counts slices that gRPC still holds, so that the server outlives the memory they point to. gRPC may let go of a slice
// after its call ended.
class SliceLedger {
 public:
  // [data, data + bytes) as a slice that keeps `owner` until gRPC drops it; on any thread then.
  grpc::Slice Wrap(const void* data, int64_t bytes, std::shared_ptr<const void> owner);
  void WaitIdle();

 private:
  struct Held;
  static void Drop(void* held);

  Mutex mu_;
  CondVar idle_;
  int64_t held_ ABSL_GUARDED_BY(mu_) = 0;
};

// The pieces as one gRPC message; what has an owner is not copied unless it is small.
grpc::ByteBuffer ToByteBuffer(const wire::OutMessage& message, SliceLedger& ledger);

// A message without bulk.
grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message);

}  // namespace embps
