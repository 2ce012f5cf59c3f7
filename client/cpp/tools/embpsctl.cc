// The command line of an embps cluster. See --help.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "client/cpp/tools/commands.h"

namespace embps::tools {
namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

absl::StatusOr<Report> Run(const Arguments& arguments) {
  switch (arguments.command) {
    case Command::kHealth:
      return RunHealth(arguments);
    case Command::kInfo:
      return RunInfo(arguments);
    case Command::kTableList:
      return RunTableList(arguments);
    case Command::kTableGet:
      return RunTableGet(arguments);
    case Command::kTableCreate:
      return RunTableCreate(arguments);
    case Command::kTableDrop:
      return RunTableDrop(arguments);
    case Command::kPlan:
      return RunPlan(arguments);
    case Command::kLookup:
      return RunLookup(arguments);
    case Command::kPush:
      return RunPush(arguments);
    case Command::kStats:
      return RunStats(arguments);
    case Command::kBench:
      return RunBench(arguments);
    case Command::kTop:
      break;
  }
  std::signal(SIGINT, [](int) { stop_requested = true; });
  auto exit_code = RunTop(arguments, std::cout, isatty(STDOUT_FILENO) != 0, stop_requested);
  if (!exit_code.ok()) return exit_code.status();
  Report report;
  report.exit_code = *exit_code;
  return report;
}

ExitCode Main(std::vector<std::string> words) {
  const ParseOutcome parsed = ParseArguments(std::move(words));
  if (!parsed.arguments.has_value()) {
    (parsed.exit_code == ExitCode::kOk ? std::cout : std::cerr) << parsed.text;
    return parsed.exit_code;
  }
  const Format format = parsed.arguments->globals.format;
  const absl::StatusOr<Report> report = Run(*parsed.arguments);
  if (!report.ok()) {
    (format == Format::kJson ? std::cout : std::cerr) << RenderError(report.status(), format);
    return ExitCodeOf(report.status());
  }
  // top has written its screens already.
  if (parsed.arguments->command != Command::kTop) std::cout << Render(*report, format);
  return report->exit_code;
}

}  // namespace
}  // namespace embps::tools

int main(int argc, char** argv) {
  return static_cast<int>(embps::tools::Main(std::vector<std::string>(argv + 1, argv + argc)));
}
