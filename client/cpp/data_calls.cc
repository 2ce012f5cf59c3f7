#include "client/cpp/data_calls.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/status_macros.h"
#include "proto/wire/parse_message.h"

namespace embps::client {
namespace {

// Room for tags and lengths of bulk fields, so that a message stays under the limit with them.
constexpr int64_t kMinMessageBytes = 4096;

// Pieces without an owner are copied, all into one buffer.
Message TakeOver(wire::OutMessage from, TensorPool* pool) {
  size_t borrowed = 0;
  for (const wire::OutPiece& piece : from) borrowed += piece.owner == nullptr ? piece.bytes.size() : 0;
  const std::shared_ptr<char> copy = pool->Allocate(borrowed);
  char* next = copy.get();
  Message message;
  for (wire::OutPiece& piece : from) {
    if (piece.owner != nullptr || piece.bytes.empty()) {
      message.pieces.push_back({piece.bytes, std::move(piece.owner)});
      continue;
    }
    std::memcpy(next, piece.bytes.data(), piece.bytes.size());
    message.pieces.push_back({{next, piece.bytes.size()}, copy});
    next += piece.bytes.size();
  }
  return message;
}

std::vector<absl::string_view> ViewsOf(const Message& message) {
  std::vector<absl::string_view> views;
  views.reserve(message.pieces.size());
  for (const Piece& piece : message.pieces) views.push_back(piece.bytes);
  return views;
}

void NextMessage(wire::RequestEncoder& encoder, const DataCallShape& shape, TensorPool* pool, Message* message,
                 bool* last) {
  const int64_t bytes =
      shape.kind == CallKind::kUnary ? std::max(encoder.payload_bytes(), kMinMessageBytes) : shape.message_bytes;
  *message = TakeOver(encoder.Next(bytes), pool);
  *last = encoder.done();
}

}  // namespace

DataCallShape ShapeOfCall(const ServerLimits& limits, int64_t request_bytes, int64_t reply_bytes) {
  DataCallShape shape;
  shape.message_bytes = std::max(limits.max_frame_bytes, kMinMessageBytes);
  if (std::max(request_bytes, reply_bytes) > limits.max_unary_bytes) shape.kind = CallKind::kStream;
  return shape;
}

LookupCall::LookupCall(wire::RequestEncoder encoder, const DataCallShape& shape,
                       std::vector<wire::OutputFeature> landings, const wire::ReplyOptions& options, TensorPool* pool,
                       Done done)
    : encoder_(std::move(encoder)),
      shape_(shape),
      landings_(std::move(landings)),
      options_(options),
      pool_(pool),
      done_(std::move(done)) {}

void LookupCall::BeginAttempt() {
  encoder_.Rewind();
  MutexLock lock(&mu_);
  decoder_ = std::make_unique<wire::ReplyDecoder>(landings_, options_);
  info_ = {};
}

void LookupCall::NextRequest(Message* message, bool* last) { NextMessage(encoder_, shape_, pool_, message, last); }

template <class Response>
absl::Status LookupCall::Take(const Message& message) {
  Response header;
  wire::BulkMessage bulk;
  EMBPS_RETURN_IF_ERROR(wire::ParseBulkMessage(ViewsOf(message), &header, &bulk));
  MutexLock lock(&mu_);
  info_.incarnation = std::max<uint64_t>(info_.incarnation, header.server_incarnation());
  info_.version = std::max<uint64_t>(info_.version, header.version());
  info_.dropped_ids = std::max<uint64_t>(info_.dropped_ids, header.dropped_ids());
  info_.pruned_ids = std::max<uint64_t>(info_.pruned_ids, header.pruned_ids());
  if (!header.lookup_token().empty()) info_.lookup_token = header.lookup_token();
  return decoder_->Append(header, bulk);
}

absl::Status LookupCall::OnReply(Message message) {
  return shape_.kind == CallKind::kUnary ? Take<v1::LookupResponse>(message) : Take<v1::LookupStreamResponse>(message);
}

absl::Status LookupCall::CheckReply() {
  MutexLock lock(&mu_);
  return decoder_->CheckComplete();
}

void LookupCall::Finish(const absl::Status& status, int attempts) {
  LookupReplyInfo info;
  {
    MutexLock lock(&mu_);
    info = std::move(info_);
  }
  std::exchange(done_, nullptr)(status, info);
}

PushCall::PushCall(wire::RequestEncoder encoder, const DataCallShape& shape, TensorPool* pool, Done done)
    : encoder_(std::move(encoder)), shape_(shape), pool_(pool), done_(std::move(done)) {}

void PushCall::BeginAttempt() {
  encoder_.Rewind();
  MutexLock lock(&mu_);
  answered_ = false;
}

void PushCall::NextRequest(Message* message, bool* last) { NextMessage(encoder_, shape_, pool_, message, last); }

absl::Status PushCall::OnReply(Message message) {
  // The streamed response has the same fields.
  EMBPS_ASSIGN_OR_RETURN(v1::PushGradResponse response, wire::ParseMessage<v1::PushGradResponse>(ViewsOf(message)));
  MutexLock lock(&mu_);
  response_ = std::move(response);
  answered_ = true;
  return absl::OkStatus();
}

absl::Status PushCall::CheckReply() {
  MutexLock lock(&mu_);
  return answered_ ? absl::OkStatus() : absl::InternalError("the push ended without a reply");
}

void PushCall::Finish(const absl::Status& status, int attempts) {
  v1::PushGradResponse response;
  {
    MutexLock lock(&mu_);
    response = std::move(response_);
  }
  std::exchange(done_, nullptr)(status, response, attempts);
}

}  // namespace embps::client
