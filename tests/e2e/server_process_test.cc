// The server binary: what it prints, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace embps {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

constexpr char kBinary[] = EMBPS_SERVER_BINARY;

TEST(ServerProcessTest, S23_MissingBackendFailsAtStartUpWithItsName) {
  ServerProcess process(kBinary, {"--backend", "cuda"});
  EXPECT_EQ(process.Wait(), 2);
  EXPECT_EQ(process.err(), "embps-server: backend 'cuda' is not part of this build, which has: cpu\n");
  EXPECT_EQ(process.out(), "");
}

TEST(ServerProcessTest, CheckConfigSaysWhetherAFileIsValid) {
  const std::string path = testing::TempDir() + "server_process_test.yaml";
  std::ofstream(path) << "node_index: 0\nranks: 2\n";
  ServerProcess bad(kBinary, {"--config", path, "--check_config"});
  EXPECT_EQ(bad.Wait(), 2);
  EXPECT_THAT(bad.err(), HasSubstr(path + ":2: unknown key 'ranks'"));
  std::ofstream(path) << "node_index: 0\nranks_per_node: [2]\n";
  ServerProcess good(kBinary, {"--config", path, "--check_config"});
  EXPECT_EQ(good.Wait(), 0);
  EXPECT_EQ(good.out(), "configuration is valid\n");
}

TEST(ServerProcessTest, ATakenAddressIsNamed) {
  ServerProcess first(kBinary, {"--listen", "127.0.0.1:0"});
  const std::string address = first.AwaitReady();
  ASSERT_NE(address, "");
  ServerProcess second(kBinary, {"--listen", address});
  EXPECT_EQ(second.Wait(), 3);
  EXPECT_THAT(second.err(), HasSubstr("cannot listen on " + address));
}

TEST(ServerProcessTest, F11_SigtermWithAnOpenWatchEndsTheServerAtOnceWithSuccess) {
  ServerProcess process(kBinary, {"--listen", "127.0.0.1:0", "--ranks", "2", "--drain_timeout_ms", "60000"});
  const std::string address = process.AwaitReady();
  ASSERT_NE(address, "") << process.err();
  const auto health = Health::NewStub(NewChannel(address));
  CallContext context;
  const auto watch = health->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  const auto began = std::chrono::steady_clock::now();
  process.Signal(SIGTERM);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_TRUE(watch->Finish().ok());
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30)) << "far below the drain time";
  EXPECT_THAT(process.err(), HasSubstr("draining"));
}

// Two servers and two clients, the clients first: all of them come together whatever starts when.
TEST(ServerProcessTest, S12_StartOrderDoesNotMatter) {
  const std::string paths[] = {testing::TempDir() + "s12_a.sock", testing::TempDir() + "s12_b.sock"};
  for (const std::string& path : paths) unlink(path.c_str());
  std::vector<std::jthread> clients;
  std::atomic<int> served{0};
  for (int c = 0; c < 2; ++c) {
    clients.emplace_back([&] {
      for (int node = 0; node < 2; ++node) {
        StockClient client("unix:" + paths[node]);
        CallContext context(std::chrono::seconds(60));
        context.set_wait_for_ready(true);
        v1::GetServerInfoResponse info;
        const grpc::Status status = client.stats().GetServerInfo(&context, v1::GetServerInfoRequest(), &info);
        if (status.ok() && info.node_index() == node && info.node_count() == 2) ++served;
      }
    });
  }
  ServerProcess second(kBinary, {"--listen", "unix:" + paths[1], "--ranks_per_node", "1,2", "--node_index", "1"});
  EXPECT_EQ(second.AwaitReady(), "unix:" + paths[1]);
  ServerProcess first(kBinary, {"--listen", "unix:" + paths[0], "--ranks_per_node", "1,2", "--node_index", "0"});
  EXPECT_EQ(first.AwaitReady(), "unix:" + paths[0]);
  clients.clear();
  EXPECT_EQ(served, 4);
  for (ServerProcess* process : {&first, &second}) {
    process->Signal(SIGTERM);
    EXPECT_EQ(process->Wait(), 0) << process->err();
  }
}

}  // namespace
}  // namespace embps
