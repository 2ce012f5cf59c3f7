#include "proto/base/error.h"

#include <algorithm>
#include <array>

#include "absl/strings/cord.h"
#include "proto/base/check.h"

namespace embps {
namespace {

// Payload grammar: reason NUL (key NUL value NUL)*
constexpr absl::string_view kPayloadUrl = "embps/error";
constexpr size_t kMaxErrorBytes = 3 << 10;

struct ReasonRow {
  Reason reason;
  absl::string_view name;
  absl::StatusCode code;
};

using Code = absl::StatusCode;
constexpr auto kReasonTable = std::to_array<ReasonRow>({
    {Reason::kNone, "", Code::kInternal},
    {Reason::kBadJaggedLayout, "BAD_JAGGED_LAYOUT", Code::kInvalidArgument},
    {Reason::kDtypeUnsupported, "DTYPE_UNSUPPORTED", Code::kInvalidArgument},
    {Reason::kDimMismatch, "DIM_MISMATCH", Code::kInvalidArgument},
    {Reason::kNonfiniteGradient, "NONFINITE_GRADIENT", Code::kInvalidArgument},
    {Reason::kSeqReused, "SEQ_REUSED", Code::kInvalidArgument},
    {Reason::kChecksumMismatch, "CHECKSUM_MISMATCH", Code::kInvalidArgument},
    {Reason::kMalformed, "MALFORMED", Code::kInvalidArgument},
    {Reason::kIdOutOfRange, "ID_OUT_OF_RANGE", Code::kOutOfRange},
    {Reason::kTableNotFound, "TABLE_NOT_FOUND", Code::kNotFound},
    {Reason::kTableSpecMismatch, "TABLE_SPEC_MISMATCH", Code::kAlreadyExists},
    {Reason::kPlanStale, "PLAN_STALE", Code::kAborted},
    {Reason::kStateRolledBack, "STATE_ROLLED_BACK", Code::kAborted},
    {Reason::kLookupTokenExpired, "LOOKUP_TOKEN_EXPIRED", Code::kFailedPrecondition},
    {Reason::kSeqTooOld, "SEQ_TOO_OLD", Code::kFailedPrecondition},
    {Reason::kSessionEnded, "SESSION_ENDED", Code::kFailedPrecondition},
    {Reason::kTableReadOnly, "TABLE_READ_ONLY", Code::kFailedPrecondition},
    {Reason::kWrongCluster, "WRONG_CLUSTER", Code::kFailedPrecondition},
    {Reason::kQueueFull, "QUEUE_FULL", Code::kResourceExhausted},
    {Reason::kInflightBytes, "INFLIGHT_BYTES", Code::kResourceExhausted},
    {Reason::kMessageTooLarge, "MESSAGE_TOO_LARGE", Code::kResourceExhausted},
    {Reason::kMemoryFull, "MEMORY_FULL", Code::kResourceExhausted},
    {Reason::kDraining, "DRAINING", Code::kUnavailable},
    {Reason::kLoading, "LOADING", Code::kUnavailable},
    {Reason::kPeerDown, "PEER_DOWN", Code::kUnavailable},
    {Reason::kCheckpointCorrupt, "CHECKPOINT_CORRUPT", Code::kDataLoss},
});

const ReasonRow& RowOf(Reason reason) {
  const ReasonRow& row = kReasonTable[static_cast<size_t>(reason)];
  EMBPS_CHECK(row.reason == reason);
  return row;
}

std::vector<std::string> PayloadParts(const absl::Status& status) {
  std::vector<std::string> parts;
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return parts;
  const std::string bytes(*payload);
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\0', at), bytes.size());
    parts.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

absl::string_view ReasonName(Reason reason) { return RowOf(reason).name; }

Reason ReasonFromName(absl::string_view name) {
  const auto row = std::ranges::find_if(kReasonTable, [&](const ReasonRow& r) { return r.name == name; });
  return row == kReasonTable.end() ? Reason::kNone : row->reason;
}

absl::StatusCode CodeOf(Reason reason) { return RowOf(reason).code; }

absl::Status MakeError(Reason reason, absl::string_view message, ErrorMetadata metadata) {
  return MakeErrorWithCode(CodeOf(reason), reason, message, std::move(metadata));
}

absl::Status MakeErrorWithCode(absl::StatusCode code, Reason reason, absl::string_view message,
                               ErrorMetadata metadata) {
  const absl::string_view name = ReasonName(reason);
  size_t room = kMaxErrorBytes - name.size();
  absl::Status status(code, message.substr(0, room));
  room -= status.message().size();
  std::string payload(name);
  payload.push_back('\0');
  for (const auto& [key, value] : metadata) {
    if (key.size() + value.size() + 2 > room) break;
    room -= key.size() + value.size() + 2;
    payload.append(key).push_back('\0');
    payload.append(value).push_back('\0');
  }
  status.SetPayload(kPayloadUrl, absl::Cord(payload));
  return status;
}

Reason ReasonOf(const absl::Status& status) {
  const std::vector<std::string> parts = PayloadParts(status);
  return parts.empty() ? Reason::kNone : ReasonFromName(parts.front());
}

ErrorMetadata MetadataOf(const absl::Status& status) {
  const std::vector<std::string> parts = PayloadParts(status);
  ErrorMetadata metadata;
  for (size_t i = 1; i + 1 < parts.size(); i += 2) metadata.emplace_back(parts[i], parts[i + 1]);
  return metadata;
}

std::string MetadataValue(const absl::Status& status, absl::string_view key) {
  for (auto& [name, value] : MetadataOf(status)) {
    if (name == key) return value;
  }
  return "";
}

}  // namespace embps
