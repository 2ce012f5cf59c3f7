#include "server/config/server_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "server/config/command_line.h"
#include "server/config/config_file.h"
#include "server/config/config_keys.h"

namespace embps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "embps-server");
  return ParseCommandLine(static_cast<int>(flags.size()), flags.data());
}

std::string WriteFile(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << content;
  return path;
}

TEST(ServerConfigTest, DefaultsAreValid) { EXPECT_TRUE(ServerConfig().Validate().ok()); }

TEST(ServerConfigTest, ValidateListsEveryFaultAtOnce) {
  ServerConfig config;
  config.cluster_id = "";
  config.ranks_per_node = {2, 0};
  config.node_index = 2;
  config.listen = {"localhost", "unix:", "127.0.0.1:70000"};
  config.max_unary_bytes = 5 << 20;
  config.budget_bytes = 1;
  config.stall_timeout_ms = 0;
  config.log_level = "loud";
  const std::string faults(config.Validate().message());
  for (const char* fault :
       {"cluster_id has 0 bytes", "entry of ranks_per_node is 0", "node_index is 2, but ranks_per_node has 2 nodes",
        "'localhost' is neither", "'unix:' has no path", "'127.0.0.1:70000' is neither", "max_unary_bytes is 5242880",
        "budget_bytes is 1", "stall_timeout_ms is 0", "log_level is 'loud'"}) {
    EXPECT_THAT(faults, HasSubstr(fault));
  }
}

TEST(ServerConfigTest, S23_BackendAbsentFromTheBuildIsNamed) {
  ServerConfig config;
  config.backend = "cuda";
  EXPECT_EQ(config.Validate().message(), "backend 'cuda' is not part of this build, which has: cpu");
}

TEST(ConfigKeysTest, NamesAreUniqueAndEveryFieldHasAKey) {
  std::set<absl::string_view> names;
  size_t field_bytes = 0;
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    field_bytes += std::visit([](auto member) { return sizeof(ServerConfig().*member); }, key.field);
  }
  EXPECT_EQ(field_bytes, sizeof(ServerConfig));
}

TEST(ConfigFileTest, SetsWhatItNamesAndLeavesTheRest) {
  ServerConfig config;
  config.workers = 3;
  const absl::Status status = ApplyYaml(
      "# a cluster of two nodes\n"
      "cluster_id: clicks\n"
      "ranks_per_node: [2, 4]\n"
      "node_index: 1\n"
      "listen:\n"
      "  - 0.0.0.0:7737\n"
      "  - unix:/run/embps.sock\n",
      "node1.yaml", config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.cluster_id, "clicks");
  EXPECT_THAT(config.ranks_per_node, ElementsAre(2, 4));
  EXPECT_THAT(config.listen, ElementsAre("0.0.0.0:7737", "unix:/run/embps.sock"));
  EXPECT_EQ(config.rank_count(), 4);
  EXPECT_EQ(config.workers, 3);
}

TEST(ConfigFileTest, ASingleValueStandsForAListOfOne) {
  ServerConfig config;
  ASSERT_TRUE(ApplyYaml("ranks_per_node: 4\nlisten: unix:a.sock", "f", config).ok());
  EXPECT_THAT(config.ranks_per_node, ElementsAre(4));
  EXPECT_THAT(config.listen, ElementsAre("unix:a.sock"));
}

TEST(ConfigFileTest, EveryFaultIsNamedWithItsLine) {
  ServerConfig config;
  const absl::Status status = ApplyYaml(
      "rank_count: 2\n"
      "workers: many\n"
      "node_index: 0\n"
      "node_index: 1\n"
      "listen: {a: 1}\n",
      "bad.yaml", config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "bad.yaml:1: unknown key 'rank_count'\n"
            "bad.yaml:2: 'workers' must be an integer\n"
            "bad.yaml:4: key 'node_index' is given twice\n"
            "bad.yaml:5: 'listen' must be a list of strings");
}

TEST(ConfigFileTest, BrokenYamlIsAnErrorWithItsLine) {
  ServerConfig config;
  const absl::Status status = ApplyYaml("workers: 1\nlisten: [a\n", "bad.yaml", config);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bad.yaml:"));
  EXPECT_FALSE(ApplyYaml("- a\n- b\n", "bad.yaml", config).ok());
  EXPECT_TRUE(ApplyYaml("", "empty.yaml", config).ok());
}

TEST(ConfigFileTest, MissingFileIsNotFound) {
  ServerConfig config;
  const absl::Status status = ApplyConfigFile("/no/such/file.yaml", config);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/file.yaml"));
}

TEST(CommandLineTest, FlagsWinOverTheFile) {
  const std::string path = WriteFile("flags_win.yaml", "workers: 1\nbudget_bytes: 8388608\n");
  const auto command = Parse({"--config", path.c_str(), "--workers", "2", "--listen", "127.0.0.1:0,unix:x.sock"});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->config.workers, 2);
  EXPECT_EQ(command->config.budget_bytes, 8388608);
  EXPECT_THAT(command->config.listen, ElementsAre("127.0.0.1:0", "unix:x.sock"));
  EXPECT_FALSE(command->check_config);
}

TEST(CommandLineTest, RanksIsShortForAClusterOfOneNode) {
  const auto command = Parse({"--ranks", "4", "--check_config"});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(command->config.ranks_per_node, ElementsAre(4));
  EXPECT_TRUE(command->check_config);
  EXPECT_THAT(Parse({"--ranks_per_node", "2,2", "--node_index", "1"})->config.ranks_per_node, ElementsAre(2, 2));
}

TEST(CommandLineTest, FaultsAreErrors) {
  EXPECT_THAT(std::string(Parse({"--no_such_flag", "1"}).status().message()), HasSubstr("no_such_flag"));
  EXPECT_THAT(std::string(Parse({"--workers", "many"}).status().message()), HasSubstr("workers"));
  EXPECT_THAT(std::string(Parse({"--backend", "cuda"}).status().message()), HasSubstr("'cuda' is not part of"));
  EXPECT_FALSE(Parse({"--config", "/no/such/file.yaml"}).ok());
  const std::string path = WriteFile("unknown.yaml", "\nworker: 1\n");
  EXPECT_THAT(std::string(Parse({"--config", path.c_str()}).status().message()),
              AllOf(HasSubstr(path + ":2:"), HasSubstr("unknown key 'worker'")));
}

TEST(CommandLineTest, HelpNamesEveryKeyAndVersionIsPrinted) {
  const auto help = Parse({"--help"});
  ASSERT_TRUE(help.ok());
  for (const ConfigKey& key : ConfigKeys()) EXPECT_THAT(help->text, HasSubstr("--" + std::string(key.name)));
  EXPECT_THAT(help->text, HasSubstr("Example:"));
  EXPECT_THAT(Parse({"--version"})->text, HasSubstr("embps-server 0."));
}

}  // namespace
}  // namespace embps
