#include "server/config/command_line.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>

#include "proto/base/status_macros.h"
#include "server/config/config_file.h"
#include "server/config/config_keys.h"

namespace embps {
namespace {

// What the flags said; a flag that was not given leaves the file's value.
class FlagValues {
 public:
  void AddTo(CLI::App& app) {
    for (const ConfigKey& key : ConfigKeys()) {
      const std::string flag = "--" + std::string(key.name), meaning(key.meaning);
      std::visit([&](auto member) { Add(app, flag, meaning, member); }, key.field);
    }
    app.add_option("--ranks", ranks_, "ranks of the only node: short for --ranks_per_node N");
  }

  void ApplyTo(ServerConfig& config) const {
    for (const Flag& flag : flags_) {
      if (flag.option->count() > 0) flag.copy(values_, config);
    }
    if (ranks_.has_value()) config.ranks_per_node = {*ranks_};
  }

 private:
  struct Flag {
    CLI::Option* option;
    std::function<void(const ServerConfig& from, ServerConfig& to)> copy;
  };

  template <class T>
  void Add(CLI::App& app, const std::string& flag, const std::string& meaning, T ServerConfig::*member) {
    CLI::Option* option = app.add_option(flag, values_.*member, meaning)->capture_default_str();
    if constexpr (!std::is_same_v<T, int64_t> && !std::is_same_v<T, std::string>) option->delimiter(',');
    flags_.push_back({option, [member](const ServerConfig& from, ServerConfig& to) { to.*member = from.*member; }});
  }

  ServerConfig values_;
  std::optional<int64_t> ranks_;
  std::vector<Flag> flags_;
};

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine command;
  CLI::App app("Shard server of the embedding parameter server embps.", "embps-server");
  app.footer("Example: embps-server --config node0.yaml --listen 0.0.0.0:7737 --ranks 4");
  FlagValues flags;
  flags.AddTo(app);
  std::string config_path;
  bool version = false;
  app.add_option("--config", config_path, "YAML file with keys named like the flags; flags win");
  app.add_flag("--check_config", command.check_config, "say whether the configuration is valid, then exit");
  app.add_flag("--version", version, "print the version, then exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    command.text = app.help();
    return command;
  } catch (const CLI::ParseError& e) {
    return absl::InvalidArgumentError(e.what());
  }
  if (version) {
    command.text = "embps-server " EMBPS_VERSION "\n";
    return command;
  }
  if (!config_path.empty()) EMBPS_RETURN_IF_ERROR(ApplyConfigFile(config_path, command.config));
  flags.ApplyTo(command.config);
  EMBPS_RETURN_IF_ERROR(command.config.Validate());
  return command;
}

}  // namespace embps
