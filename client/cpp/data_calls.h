// Lookup and PushGrad to one node: encoders and decoders of proto/wire behind LogicalCall.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/node.h"
#include "client/cpp/tensor_pool.h"
#include "embps/v1/embedding.pb.h"
#include "proto/base/mutex.h"
#include "proto/wire/batch_encoder.h"
#include "proto/wire/reply_decoder.h"

namespace embps::client {

// How one data call travels: unary if both ways fit the server's limit, else streamed.
struct DataCallShape {
  CallKind kind = CallKind::kUnary;
  int64_t message_bytes = 0;  // payload of one message
};
DataCallShape ShapeOfCall(const ServerLimits& limits, int64_t request_bytes, int64_t reply_bytes);

// What a node said beside the rows.
struct LookupReplyInfo {
  uint64_t incarnation = 0;
  uint64_t version = 0;
  uint64_t dropped_ids = 0;
  uint64_t pruned_ids = 0;
  std::string lookup_token;
};

class LookupCall final : public LogicalCall {
 public:
  using Done = std::function<void(const absl::Status&, const LookupReplyInfo&)>;

  // Copies the caller's arrays message by message, so gRPC never holds views of them.
  LookupCall(wire::RequestEncoder encoder, const DataCallShape& shape, std::vector<wire::OutputFeature> landings,
             const wire::ReplyOptions& options, TensorPool* pool, Done done);

  void BeginAttempt() override;
  void NextRequest(Message* message, bool* last) override;
  absl::Status OnReply(Message message) override;
  absl::Status CheckReply() override;
  void Finish(const absl::Status& status, int attempts) override;

 private:
  template <class Response>
  absl::Status Take(const Message& message);

  wire::RequestEncoder encoder_;
  const DataCallShape shape_;
  const std::vector<wire::OutputFeature> landings_;
  const wire::ReplyOptions options_;
  TensorPool* const pool_;
  Done done_;
  Mutex mu_;
  std::unique_ptr<wire::ReplyDecoder> decoder_ ABSL_GUARDED_BY(mu_);
  LookupReplyInfo info_ ABSL_GUARDED_BY(mu_);
};

class PushCall final : public LogicalCall {
 public:
  using Done = std::function<void(const absl::Status&, const v1::PushGradResponse&, int attempts)>;

  PushCall(wire::RequestEncoder encoder, const DataCallShape& shape, TensorPool* pool, Done done);

  void BeginAttempt() override;
  void NextRequest(Message* message, bool* last) override;
  absl::Status OnReply(Message message) override;
  absl::Status CheckReply() override;
  void Finish(const absl::Status& status, int attempts) override;

 private:
  wire::RequestEncoder encoder_;
  const DataCallShape shape_;
  TensorPool* const pool_;
  Done done_;
  Mutex mu_;
  v1::PushGradResponse response_ ABSL_GUARDED_BY(mu_);
  bool answered_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace embps::client
