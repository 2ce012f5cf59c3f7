#include "client/cpp/tools/exit_code.h"

#include <algorithm>
#include <string>

#include "embps/error.h"

namespace embps::tools {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kUsage;
    case absl::StatusCode::kUnavailable: {
      const std::string reason = ErrorReason(status);
      return reason == "DRAINING" || reason == "LOADING" ? ExitCode::kUnhealthy : ExitCode::kUnreachable;
    }
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kDenied;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kDeadline;
    default:
      return ExitCode::kServerError;
  }
}

ExitCode ExitCodeOf(absl::Span<const absl::Status> nodes) {
  const auto failed = std::ranges::find_if(nodes, [](const absl::Status& status) { return !status.ok(); });
  if (failed == nodes.end()) return ExitCode::kOk;
  const bool some_ok = std::ranges::any_of(nodes, [](const absl::Status& status) { return status.ok(); });
  return some_ok ? ExitCode::kUnhealthy : ExitCodeOf(*failed);
}

ExitCode ExitCodeOf(absl::Span<const NodeHealth> nodes) {
  const auto are = [&](HealthState state) {
    return std::ranges::all_of(nodes, [state](const NodeHealth& node) { return node.state == state; });
  };
  if (are(HealthState::kServing)) return ExitCode::kOk;
  return are(HealthState::kUnreachable) ? ExitCode::kUnreachable : ExitCode::kUnhealthy;
}

}  // namespace embps::tools
