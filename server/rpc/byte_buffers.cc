#include "server/rpc/byte_buffers.h"

#include <google/protobuf/message_lite.h>

#include <utility>

namespace embps {
namespace {

// A copy of so little costs less than the bookkeeping of a slice with an owner.
constexpr size_t kCopyBelowBytes = 512;

}  // namespace

absl::Status ReceivedMessage::Assign(const grpc::ByteBuffer& buffer) {
  Clear();
  if (const grpc::Status status = buffer.Dump(&slices_); !status.ok()) {
    return absl::InternalError("received bytes cannot be read: " + status.error_message());
  }
  pieces_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    pieces_.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    bytes_ += static_cast<int64_t>(slice.size());
  }
  return absl::OkStatus();
}

void ReceivedMessage::Clear() {
  pieces_.clear();
  slices_.clear();
  bytes_ = 0;
}

struct SliceLedger::Held {
  SliceLedger* ledger;
  std::shared_ptr<const void> owner;
};

grpc::Slice SliceLedger::Wrap(const void* data, int64_t bytes, std::shared_ptr<const void> owner) {
  {
    MutexLock lock(&mu_);
    ++held_;
  }
  auto* held = new Held{this, std::move(owner)};
  return grpc::Slice(const_cast<void*>(data), static_cast<size_t>(bytes), &SliceLedger::Drop, held);
}

void SliceLedger::Drop(void* raw) {
  std::unique_ptr<Held> held(static_cast<Held*>(raw));
  held->owner.reset();  // first: whoever waits for the ledger may destroy what the owner needs
  MutexLock lock(&held->ledger->mu_);
  if (--held->ledger->held_ == 0) held->ledger->idle_.NotifyAll();
}

void SliceLedger::WaitIdle() {
  MutexLock lock(&mu_);
  while (held_ > 0) idle_.Wait(&mu_);
}

grpc::ByteBuffer ToByteBuffer(const wire::OutMessage& message, SliceLedger& ledger) {
  std::vector<grpc::Slice> slices;
  slices.reserve(message.size());
  for (const wire::OutPiece& piece : message) {
    const absl::string_view bytes = piece.bytes;
    if (piece.owner == nullptr || bytes.size() <= kCopyBelowBytes) {
      slices.emplace_back(bytes.data(), bytes.size());
    } else {
      slices.push_back(ledger.Wrap(bytes.data(), static_cast<int64_t>(bytes.size()), piece.owner));
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace embps
