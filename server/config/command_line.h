// The command line of embps-server.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "server/config/server_config.h"

namespace embps {

struct CommandLine {
  ServerConfig config;        // defaults, then the file, then flags; valid
  bool check_config = false;  // only say whether the configuration is valid
  std::string text;           // not empty: print it and exit with success (--help, --version)
};

// One flag per key of config_keys.cc, plus --config FILE, --ranks N (a cluster of one node), --check_config, --version.
// INVALID_ARGUMENT or NOT_FOUND with all faults, one per line.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace embps
