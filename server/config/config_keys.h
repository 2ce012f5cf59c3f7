// The one table of configuration keys: name, meaning and field. YAML, flags and help are made from it.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/config/server_config.h"

namespace embps {

using ConfigField = std::variant<int64_t ServerConfig::*, std::string ServerConfig::*,
                                 std::vector<int64_t> ServerConfig::*, std::vector<std::string> ServerConfig::*>;

struct ConfigKey {
  absl::string_view name;
  ConfigField field;
  absl::string_view meaning;
};

absl::Span<const ConfigKey> ConfigKeys();

}  // namespace embps
