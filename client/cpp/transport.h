// The seam between the SDK and the network: one Transport is one node. gRPC stands behind it in grpc_transport.h; fakes
// and fault injection stand behind it in tests.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace embps::client {

// Bytes that keep alive what they stand in.
struct Piece {
  absl::string_view bytes;
  std::shared_ptr<const void> owner;
};

// One serialised message in pieces, in order.
struct Message {
  std::vector<Piece> pieces;

  size_t size() const {
    size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.bytes.size();
    return bytes;
  }
};

enum class CallKind { kUnary, kStream };

struct CallTarget {
  std::string method;  // "/embps.v1.EmbeddingService/Lookup"
  CallKind kind = CallKind::kUnary;
  std::chrono::steady_clock::time_point deadline;  // by the Scheduler's clock
};

// One attempt of one call. A transport drives it: NextRequest from one thread at a time until it gives the last
// message; OnReply once per reply message, perhaps from several threads at once; OnDone once, after everything else has
// returned.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  // Fills `message`; *last = nothing follows. Unary calls ask once.
  virtual void NextRequest(Message* message, bool* last) = 0;
  // A fault of the reply cancels the call, which then ends with this status.
  virtual absl::Status OnReply(Message message) = 0;
  // A status of a server carries its reason (proto/base/error.h).
  virtual void OnDone(const absl::Status& status) = 0;
};

class Transport {
 public:
  // Calls in flight end before it is gone.
  virtual ~Transport() = default;
  // Never blocks and never calls OnDone from within.
  virtual void Start(const CallTarget& target, std::shared_ptr<CallHandler> handler) = 0;
};

// Makes the transport of one endpoint.
class TransportFactory {
 public:
  virtual ~TransportFactory() = default;
  virtual std::unique_ptr<Transport> Connect(const std::string& endpoint) = 0;
};

}  // namespace embps::client
