// embpsctl against real server processes: what it prints and how it ends.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "embps/client.h"
#include "tests/support/server_process.h"

namespace embps {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Ran {
  int exit_code = -1;
  std::string out;
  std::string err;
};

Ran RunCtl(const std::vector<std::string>& words) {
  ServerProcess process(EMBPSCTL_BINARY, words);
  Ran ran;
  ran.exit_code = process.Wait();
  ran.out = process.out();
  ran.err = process.err();
  return ran;
}

// A loopback port that is taken, and on which nobody listens.
class DeadPort {
 public:
  DeadPort() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    endpoint_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~DeadPort() { close(fd_); }

  const std::string& endpoint() const { return endpoint_; }
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::string endpoint_;
};

// Takes connections, says that it speaks HTTP/2, and never says anything again.
class MutePort {
 public:
  MutePort() {
    EXPECT_EQ(listen(port_.fd(), 16), 0);
    thread_ = std::thread([this] {
      // Length 0, type SETTINGS, no flags, stream 0.
      constexpr char kSettings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
      for (int fd = accept(port_.fd(), nullptr, nullptr); fd >= 0; fd = accept(port_.fd(), nullptr, nullptr)) {
        (void)!send(fd, kSettings, sizeof(kSettings), MSG_NOSIGNAL);
        taken_.push_back(fd);
      }
    });
  }
  ~MutePort() {
    shutdown(port_.fd(), SHUT_RDWR);  // ends accept
    thread_.join();
    for (const int fd : taken_) close(fd);
  }

  const std::string& endpoint() const { return port_.endpoint(); }

 private:
  const DeadPort port_;
  std::thread thread_;
  std::vector<int> taken_;
};

// Two nodes of two ranks.
class EmbpsctlTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int node = 0; node < 2; ++node) {
      servers_.push_back(std::make_unique<ServerProcess>(
          EMBPS_SERVER_BINARY,
          std::vector<std::string>{"--listen=127.0.0.1:0", "--ranks_per_node=2,2", "--cluster_id=ctl",
                                   absl::StrCat("--node_index=", node), "--log_level=error"}));
    }
    for (const auto& server : servers_) {
      endpoints_.push_back(server->AwaitReady());
      ASSERT_NE(endpoints_.back(), "") << server->err();
    }
  }

  Ran Ctl(std::vector<std::string> words) {
    words.push_back("--nodes=" + absl::StrJoin(endpoints_, ","));
    words.push_back("--timeout_ms=20000");
    return RunCtl(words);
  }

  // Expects success.
  Json CtlJson(std::vector<std::string> words) {
    words.insert(words.begin(), {"-o", "json"});
    const Ran ran = Ctl(words);
    EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    EXPECT_EQ(ran.err, "");
    EXPECT_TRUE(Json::accept(ran.out)) << ran.out;
    return Json::parse(ran.out, nullptr, false);
  }

  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::string> endpoints_;
};

TEST(EmbpsctlDeadTest, U8_ADeadEndpointIsNeverZero) {
  const DeadPort dead;
  const std::string nodes = "--nodes=" + dead.endpoint();
  for (const std::vector<std::string>& command : {std::vector<std::string>{"health"},
                                                  {"info"},
                                                  {"stats"},
                                                  {"table", "list"},
                                                  {"table", "get", "t"},
                                                  {"plan"},
                                                  {"lookup", "t", "--ids", "1"},
                                                  {"push", "t", "--ids", "1", "--grad_value", "1"},
                                                  {"top", "--count", "1"},
                                                  {"bench", "--seconds", "0.1"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {nodes, "--timeout_ms=300"});
    const Ran ran = RunCtl(words);
    EXPECT_EQ(ran.exit_code, 2) << absl::StrJoin(command, " ") << ": " << ran.out << ran.err;
    EXPECT_THAT(ran.out + ran.err, testing::AnyOf(HasSubstr("UNAVAILABLE"), HasSubstr("UNREACHABLE")));
  }
}

TEST(EmbpsctlDeadTest, SilenceEndsAtTheDeadline) {
  const MutePort silent;
  const Ran ran = RunCtl({"info", "--nodes=" + silent.endpoint(), "--timeout_ms=300", "-o", "json"});
  EXPECT_EQ(ran.exit_code, 6) << ran.out;
  EXPECT_EQ(Json::parse(ran.out)["nodes"][0]["status"]["code"], "DEADLINE_EXCEEDED");
  EXPECT_EQ(RunCtl({"health", "--nodes=" + silent.endpoint(), "--timeout_ms=300"}).exit_code, 2);
}

TEST(EmbpsctlDeadTest, UsageFaultsNeedNoServer) {
  const Ran ran = RunCtl({"lookup"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("table is required"));
  EXPECT_EQ(RunCtl({"plan", "--file", "/nowhere.json"}).exit_code, 1);
  const Ran help = RunCtl({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Exit codes"));
}

TEST_F(EmbpsctlTest, U8_HealthTellsWhichNodeIsGone) {
  EXPECT_EQ(Ctl({"health"}).exit_code, 0);
  EXPECT_EQ(Ctl({"health", "--service", "embps.liveness"}).exit_code, 0);
  servers_[1].reset();
  const Ran ran = Ctl({"-o", "json", "health"});
  EXPECT_EQ(ran.exit_code, 5);
  const Json json = Json::parse(ran.out);
  EXPECT_EQ(json["healthy"], false);
  EXPECT_EQ(json["nodes"][0]["health"], "SERVING");
  EXPECT_EQ(json["nodes"][1]["health"], "UNREACHABLE");
  EXPECT_EQ(json["nodes"][1]["endpoint"], endpoints_[1]);
  EXPECT_EQ(Ctl({"info"}).exit_code, 5);
}

TEST_F(EmbpsctlTest, ADrainingNodeIsUnhealthy) {
  ClientOptions options;
  options.nodes = endpoints_;
  auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->Drain(0).ok());
  const Ran ran = Ctl({"health"});
  EXPECT_EQ(ran.exit_code, 5);
  EXPECT_THAT(ran.out, HasSubstr("NOT_SERVING"));
}

TEST_F(EmbpsctlTest, TablesAreCreatedReadPushedAndDropped) {
  const Json created = CtlJson({"table", "create", "t", "--rows", "10", "--dim", "2", "--sharding", "ROW_WISE",
                                "--initializer", "CONSTANT", "--init_a", "0.5", "--learning_rate", "1"});
  EXPECT_EQ(created["tables"][0]["shards"].size(), 4u);
  EXPECT_EQ(created["tables"][0]["shards"][3]["rows"], Json({9, 10}));

  const Json pushed = CtlJson({"push", "t", "--ids", "9,0,9", "--grad", "1,2,0.25,0,0.5,-1"});
  EXPECT_EQ(pushed["nodes"].size(), 2u);
  EXPECT_EQ(pushed["nodes"][0]["rows_updated"], 1);
  EXPECT_EQ(pushed["nodes"][1]["version"], 1);

  const Json rows = CtlJson({"lookup", "t", "--ids", "9,0,5"});
  EXPECT_EQ(rows["rows"], Json({{-1.0, -0.5}, {0.25, 0.5}, {0.5, 0.5}}));
  const Json bags = CtlJson({"lookup", "t", "--ids", "9,0,5", "--lengths", "2,0,1", "--pooling", "SUM"});
  EXPECT_EQ(bags["rows"], Json({{-0.75, 0.0}, {0.0, 0.0}, {0.5, 0.5}}));
  const Json halves = CtlJson({"lookup", "t", "--ids", "0", "--output_dtype", "FP16"});
  EXPECT_EQ(halves["rows"], Json({{0.25, 0.5}}));
  const Json dropped_ids = CtlJson({"lookup", "t", "--ids=-1,10,0", "--pooling", "MEAN", "--drop"});
  EXPECT_EQ(dropped_ids["rows"], Json({{0.25, 0.5}}));
  EXPECT_EQ(dropped_ids["pruned_ids"], 1);
  EXPECT_EQ(dropped_ids["dropped_ids"], 1);

  const Json table = CtlJson({"table", "get", "t"});
  EXPECT_EQ(table["step"], 1);
  EXPECT_EQ(table["optimizer"]["type"], "SGD");
  EXPECT_EQ(CtlJson({"table", "list"})["tables"].size(), 1u);
  EXPECT_THAT(Ctl({"table", "list"}).out, AllOf(HasSubstr("default/t"), HasSubstr("ROW_WISE")));

  EXPECT_EQ(CtlJson({"table", "drop", "t"})["dropped"], true);
  EXPECT_EQ(Ctl({"table", "drop", "t"}).exit_code, 4);
  EXPECT_EQ(CtlJson({"table", "drop", "t", "--if_exists"})["dropped"], false);
}

TEST_F(EmbpsctlTest, RefusalsSayWhyAndHaveTheirCodes) {
  CtlJson({"table", "create", "t", "--rows", "10", "--dim", "2"});
  const Ran missing = Ctl({"lookup", "nope", "--ids", "1"});
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_THAT(missing.err, HasSubstr("NOT_FOUND TABLE_NOT_FOUND"));
  EXPECT_EQ(Ctl({"table", "get", "nope"}).exit_code, 4);

  const Ran outside = Ctl({"-o", "json", "lookup", "t", "--ids", "3,10"});
  EXPECT_EQ(outside.exit_code, 1);
  const Json error = Json::parse(outside.out)["error"];
  EXPECT_EQ(error["code"], "OUT_OF_RANGE");
  EXPECT_EQ(error["reason"], "ID_OUT_OF_RANGE");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("10"));

  const Ran mismatch = Ctl({"table", "create", "t", "--rows", "11", "--dim", "2"});
  EXPECT_EQ(mismatch.exit_code, 1);
  EXPECT_THAT(mismatch.err, AllOf(HasSubstr("TABLE_SPEC_MISMATCH"), HasSubstr("row_count")));
  EXPECT_THAT(Ctl({"push", "t", "--ids", "1", "--grad", "1"}).err, HasSubstr("--grad has 1 values, 2 needed"));
  EXPECT_EQ(Ctl({"--cluster_id", "other", "table", "list"}).exit_code, 1);
}

TEST_F(EmbpsctlTest, PlansAreShownBeforeAndAfter) {
  const std::string path = testing::TempDir() + "/embpsctl_plan.json";
  std::ofstream(path) << R"({"tables": [
    {"name": "big", "rows": 100000, "dim": 16, "expected_ids": 100},
    {"name": "cut", "rows": 100, "dim": 16, "sharding": "COLUMN_WISE", "optimizer": {"type": "ROWWISE_ADAGRAD"}}]})";
  const Json planned = CtlJson({"plan", "--file", path, "--explain"});
  EXPECT_EQ(planned["tables"].size(), 2u);
  EXPECT_THAT(planned["explanation"].get<std::string>(), HasSubstr("default/big: TABLE_WISE"));
  ASSERT_EQ(planned["warnings"].size(), 1u);
  EXPECT_THAT(planned["warnings"][0].get<std::string>(), HasSubstr("has a norm over the row"));
  EXPECT_EQ(CtlJson({"table", "list"})["tables"].size(), 0u);

  CtlJson({"table", "create", "--file", path});
  const Json stored = CtlJson({"plan"});
  EXPECT_EQ(stored["tables"].size(), 2u);
  EXPECT_EQ(stored["ranks"].size(), 4u);
  EXPECT_EQ(stored["warnings"].size(), 1u);
  EXPECT_THAT(Ctl({"plan", "--explain"}).out, AllOf(HasSubstr("COLUMNS"), HasSubstr("warning: ")));
  std::remove(path.c_str());
}

TEST_F(EmbpsctlTest, BenchLoadsStatsAndTopCountAndNothingIsLeftBehind) {
  const Json bench = CtlJson({"bench", "--mode", "both", "--tables", "2", "--rows", "500", "--dim", "8", "--batch_size",
                              "16", "--bag_size", "3", "--seconds", "0.2", "--threads", "2", "--sharding", "ROW_WISE"});
  EXPECT_GT(bench["lookup"]["calls"], 0);
  EXPECT_GT(bench["push"]["calls"], 0);
  EXPECT_GT(bench["push"]["p99_us"], 0);
  EXPECT_EQ(CtlJson({"table", "list"})["tables"].size(), 0u);

  CtlJson({"table", "create", "t", "--rows", "10", "--dim", "2", "--sharding", "ROW_WISE"});
  CtlJson({"lookup", "t", "--ids", "0,4,9"});
  const Json stats = CtlJson({"stats"});
  ASSERT_EQ(stats["nodes"].size(), 2u);
  uint64_t ids = 0;
  for (const Json& node : stats["nodes"]) {
    for (const Json& table : node["tables"]) ids += table["name"] == "t" ? table["ids_looked_up"].get<uint64_t>() : 0;
  }
  EXPECT_EQ(ids, 3u);
  EXPECT_THAT(Ctl({"stats"}).out, AllOf(HasSubstr("default/t"), HasSubstr("IDS PER RANK")));

  const Ran top = Ctl({"-o", "json", "top", "--count", "2", "--interval_ms", "10"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  const size_t first_end = top.out.find('\n');
  ASSERT_NE(first_end, std::string::npos);
  EXPECT_EQ(Json::parse(top.out.substr(0, first_end))["nodes"].size(), 2u);
  EXPECT_EQ(Json::parse(top.out.substr(first_end + 1))["nodes"].size(), 2u);
}

TEST_F(EmbpsctlTest, InfoShowsLimitsAndIdentity) {
  const Json info = CtlJson({"info"});
  ASSERT_EQ(info["nodes"].size(), 2u);
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(info["nodes"][node]["node_index"], node);
    EXPECT_EQ(info["nodes"][node]["cluster_id"], "ctl");
    EXPECT_EQ(info["nodes"][node]["ranks_per_node"], Json({2, 2}));
    EXPECT_GT(info["nodes"][node]["limits"]["max_unary_bytes"], 0);
  }
  EXPECT_NE(info["nodes"][0]["incarnation"], info["nodes"][1]["incarnation"]);
}

}  // namespace
}  // namespace embps
