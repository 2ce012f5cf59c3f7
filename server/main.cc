#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_join.h"
#include "server/config/command_line.h"
#include "server/env/logging.h"
#include "server/env/malloc_tuning.h"
#include "server/server.h"

namespace {

constexpr int kUsage = 2;        // the configuration is wrong
constexpr int kCannotStart = 3;  // the configuration is right, but for instance the port is taken
constexpr int kDrainTimeout = 4;

int Fail(const absl::Status& status, int exit_code) {
  std::fprintf(stderr, "embps-server: %s\n", std::string(status.message()).c_str());
  return exit_code;
}

// Before any thread starts, so that all inherit it: only WaitForStop sees these signals.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace

int main(int argc, char** argv) {
  embps::TuneMalloc();
  const auto command = embps::ParseCommandLine(argc, argv);
  if (!command.ok()) return Fail(command.status(), kUsage);
  if (!command->text.empty() || command->check_config) {
    std::fputs(command->text.empty() ? "configuration is valid\n" : command->text.c_str(), stdout);
    return EXIT_SUCCESS;
  }
  const embps::ServerConfig& config = command->config;
  const sigset_t stop_signals = BlockStopSignals();
  const auto logger = embps::NewStderrLogger(*embps::ParseLogLevel(config.log_level));
  auto server = embps::Server::Start({.config = config, .logger = logger.get()});
  if (!server.ok()) return Fail(server.status(), kCannotStart);
  const std::string addresses = absl::StrJoin((*server)->addresses(), ",");
  std::printf("embps-server ready address=%s incarnation=%llu\n", addresses.c_str(),
              static_cast<unsigned long long>((*server)->incarnation()));
  std::fflush(stdout);
  int signal = 0;
  sigwait(&stop_signals, &signal);
  const absl::Status drained = (*server)->Drain(std::chrono::milliseconds(config.drain_timeout_ms));
  // What hangs would hang the destructors too.
  if (!drained.ok()) std::_Exit(Fail(drained, kDrainTimeout));
  return EXIT_SUCCESS;
}
