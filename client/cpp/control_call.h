// Unary calls whose whole request and reply are generated messages, made one at a time by a thread that may wait.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cpp/node.h"
#include "google/protobuf/message.h"
#include "proto/wire/parse_message.h"

namespace embps::client {

// Sends `request` and waits: at most until the deadline. The reply's bytes, which `owner` keeps.
absl::StatusOr<Message> CallAndWait(Node& node, const std::string& method, std::string request, TimePoint deadline);

// CallControl<v1::GetStatsResponse>(node, kGetStats, request, deadline)
template <class Response>
absl::StatusOr<Response> CallControl(Node& node, const std::string& method, const google::protobuf::Message& request,
                                     TimePoint deadline) {
  EMBPS_ASSIGN_OR_RETURN(const Message reply, CallAndWait(node, method, request.SerializeAsString(), deadline));
  std::vector<absl::string_view> pieces;
  for (const Piece& piece : reply.pieces) pieces.push_back(piece.bytes);
  return wire::ParseMessage<Response>(pieces);
}

}  // namespace embps::client
