// Exit codes of embpsctl: documented, stable, for scripts and probes.
#pragma once
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "embps/stats.h"

namespace embps::tools {

enum class ExitCode {
  kOk = 0,
  kUsage = 1,        // the command line, or what it asks for, is wrong
  kUnreachable = 2,  // no connection
  kDenied = 3,
  kNotFound = 4,     // no such table
  kUnhealthy = 5,    // a node is not ready, or only some of the nodes did it
  kDeadline = 6,     // no answer in time
  kServerError = 7,  // anything else
};

// UNAVAILABLE is kUnreachable, unless the server itself said why it cannot serve now (DRAINING, LOADING): kUnhealthy.
ExitCode ExitCodeOf(const absl::Status& status);

// Of one answer per node: kOk if all are OK, kUnhealthy if some are, else the code of the first.
ExitCode ExitCodeOf(absl::Span<const absl::Status> nodes);

// kOk only if every node serves; kUnreachable if none can be reached; else kUnhealthy.
ExitCode ExitCodeOf(absl::Span<const NodeHealth> nodes);

}  // namespace embps::tools
