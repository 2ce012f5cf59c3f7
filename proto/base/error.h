// Typed errors: an absl::Status that carries a reason and key-value metadata from the place that found the fault to the
// RPC edge, where it becomes an ErrorInfo, and back in the client.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace embps {

// Each reason has one status code; kReasonTable in error.cc is the only place that pairs them.
enum class Reason {
  kNone,
  kBadJaggedLayout,
  kDtypeUnsupported,
  kDimMismatch,
  kNonfiniteGradient,
  kSeqReused,
  kChecksumMismatch,
  kMalformed,
  kIdOutOfRange,
  kTableNotFound,
  kTableSpecMismatch,
  kPlanStale,
  kStateRolledBack,
  kLookupTokenExpired,
  kSeqTooOld,
  kSessionEnded,
  kTableReadOnly,
  kWrongCluster,
  kQueueFull,
  kInflightBytes,
  kMessageTooLarge,
  kMemoryFull,
  kDraining,
  kLoading,
  kPeerDown,
  kCheckpointCorrupt,
};

using ErrorMetadata = std::vector<std::pair<std::string, std::string>>;

// "ID_OUT_OF_RANGE" and the like; "" for kNone.
absl::string_view ReasonName(Reason reason);
// kNone when the name is unknown.
Reason ReasonFromName(absl::string_view name);
absl::StatusCode CodeOf(Reason reason);

// The status of `reason`'s code. The message should name the field, the table and the first bad position, and say what
// to do. Total size of reason, message and metadata is cut to 3 KiB, so that the encoded details stay under 4 KiB.
absl::Status MakeError(Reason reason, absl::string_view message, ErrorMetadata metadata = {});

// Rebuilds an error on the receiving side with the code that came over the wire.
absl::Status MakeErrorWithCode(absl::StatusCode code, Reason reason, absl::string_view message,
                               ErrorMetadata metadata = {});

Reason ReasonOf(const absl::Status& status);
ErrorMetadata MetadataOf(const absl::Status& status);
// "" when the key is absent.
std::string MetadataValue(const absl::Status& status, absl::string_view key);

}  // namespace embps
