// absl::Status <-> what travels in a failed call: a code, a text and the bytes of an embps.rpc.Status with one
// ErrorInfo (domain "embps", reason, metadata) in the trailer `grpc-status-details-bin`.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace embps::wire {

inline constexpr char kErrorDetailsKey[] = "grpc-status-details-bin";
// Text (percent-encoded) and details together: larger trailers turn into RESOURCE_EXHAUSTED at common clients.
inline constexpr size_t kMaxErrorTrailerBytes = 4096;

struct WireError {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;  // valid UTF-8
  std::string details;  // serialised embps.rpc.Status
};

// status must not be OK. Cuts the text and then leaves out metadata from the end to keep the limit.
WireError EncodeError(const absl::Status& status);

// The error with its reason and metadata; without them if `details` is empty, malformed or of another domain. `code`
// and `message` are what gRPC reported and win over the details.
absl::Status DecodeError(absl::StatusCode code, absl::string_view message, absl::string_view details);

}  // namespace embps::wire
