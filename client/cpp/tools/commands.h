// One function per command. Each connects for itself, so that a command that needs only one node asks only that.
#pragma once
#include <atomic>
#include <memory>
#include <ostream>

#include "absl/status/statusor.h"
#include "client/cpp/tools/arguments.h"
#include "client/cpp/tools/report.h"
#include "embps/client.h"

namespace embps::tools {

// A client with the command line's endpoints, namespace and deadlines.
absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const GlobalArguments& globals);

// An error status means that the command failed as a whole; what failed on some nodes only is in the report.
absl::StatusOr<Report> RunHealth(const Arguments& arguments);
absl::StatusOr<Report> RunInfo(const Arguments& arguments);
absl::StatusOr<Report> RunStats(const Arguments& arguments);
absl::StatusOr<Report> RunTableList(const Arguments& arguments);
absl::StatusOr<Report> RunTableGet(const Arguments& arguments);
absl::StatusOr<Report> RunTableCreate(const Arguments& arguments);
absl::StatusOr<Report> RunTableDrop(const Arguments& arguments);
absl::StatusOr<Report> RunPlan(const Arguments& arguments);
absl::StatusOr<Report> RunLookup(const Arguments& arguments);
absl::StatusOr<Report> RunPush(const Arguments& arguments);
absl::StatusOr<Report> RunBench(const Arguments& arguments);

// Writes one screen (or one line of JSON) per interval until `stop` is set or the count is reached. `clear_screen`: the
// output is a terminal.
absl::StatusOr<ExitCode> RunTop(const Arguments& arguments, std::ostream& out, bool clear_screen,
                                const std::atomic<bool>& stop);

}  // namespace embps::tools
