// The YAML file:
//   file  := mapping of key -> value     keys as in config_keys.cc, each at most once
//   value := integer | string | list of them (a single value stands for a list of one)
#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config/server_config.h"

namespace embps {

// Sets what `yaml` names and leaves the rest of `config`. INVALID_ARGUMENT listing every fault as "SOURCE:LINE: ...":
// unknown keys, keys given twice, values of the wrong kind, broken YAML. Does not call Validate().
absl::Status ApplyYaml(absl::string_view yaml, absl::string_view source, ServerConfig& config);

// ApplyYaml on the content of a file; NOT_FOUND when it cannot be read.
absl::Status ApplyConfigFile(const std::string& path, ServerConfig& config);

}  // namespace embps
