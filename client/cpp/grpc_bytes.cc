#include "client/cpp/grpc_bytes.h"

#include <utility>
#include <vector>

namespace embps::client {
namespace {

constexpr size_t kCopyBelowBytes = 1024;

grpc::Slice ToSlice(const Piece& piece) {
  if (piece.owner == nullptr || piece.bytes.size() < kCopyBelowBytes) {
    return grpc::Slice(piece.bytes.data(), piece.bytes.size());
  }
  auto* owner = new std::shared_ptr<const void>(piece.owner);
  return grpc::Slice(
      const_cast<char*>(piece.bytes.data()), piece.bytes.size(),
      [](void* held) { delete static_cast<std::shared_ptr<const void>*>(held); }, owner);
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const Message& message) {
  std::vector<grpc::Slice> slices;
  slices.reserve(message.pieces.size());
  for (const Piece& piece : message.pieces) slices.push_back(ToSlice(piece));
  // A buffer without a slice is no message at all for gRPC.
  if (slices.empty()) slices.emplace_back();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

Message ToMessage(const grpc::ByteBuffer& buffer) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  Message message;
  if (!buffer.Dump(slices.get()).ok()) return message;
  for (const grpc::Slice& slice : *slices) {
    message.pieces.push_back({{reinterpret_cast<const char*>(slice.begin()), slice.size()}, slices});
  }
  return message;
}

}  // namespace embps::client
