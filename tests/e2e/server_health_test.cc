// Health, drain and shutdown of a server in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/support/test_server.h"

namespace embps {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

HealthCheckRequest RequestFor(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

grpc::Status Check(Health::Stub& health, const std::string& service, HealthCheckResponse* response) {
  CallContext context;
  return health.Check(&context, RequestFor(service), response);
}

// An open Watch.
class Watch {
 public:
  Watch(Health::Stub& health, const std::string& service) : reader_(health.Watch(&context_, RequestFor(service))) {}
  ~Watch() { context_.TryCancel(); }
  // UNKNOWN when the stream has ended.
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    return reader_->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }
  grpc::Status Finish() { return reader_->Finish(); }

 private:
  CallContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader_;
};

TEST(ServerHealthTest, U2_StandardHealthProtocolAnswersFromTheFirstMoment) {
  const auto server = StartServer(SmallServerConfig());
  const auto health = Health::NewStub(NewChannel(server->addresses()[0]));
  for (const char* service : {"", "embps.v1.EmbeddingService", "embps.liveness"}) {
    HealthCheckResponse response;
    ASSERT_TRUE(Check(*health, service, &response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
  HealthCheckResponse response;
  EXPECT_EQ(Check(*health, "nobody", &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Watch(*health, "nobody").Next(), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST(ServerHealthTest, F11_OpenWatchesHearNotServingAndEndWhenTheServerDrains) {
  const auto server = StartServer(SmallServerConfig());
  const auto health = Health::NewStub(NewChannel(server->addresses()[0]));
  Watch whole(*health, ""), data(*health, "embps.v1.EmbeddingService"), liveness(*health, "embps.liveness");
  for (Watch* watch : {&whole, &data, &liveness}) EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
  EXPECT_TRUE(server->Drain(seconds(20)).ok());
  for (Watch* watch : {&whole, &data}) EXPECT_EQ(watch->Next(), HealthCheckResponse::NOT_SERVING);
  for (Watch* watch : {&whole, &data, &liveness}) {
    EXPECT_EQ(watch->Next(), HealthCheckResponse::UNKNOWN) << "ended";
    EXPECT_TRUE(watch->Finish().ok());
  }
  Watch late(*health, "");
  EXPECT_EQ(late.Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_TRUE(late.Finish().ok());
}

TEST(ServerHealthTest, AdminDrainRefusesDataCallsAndStaysUp) {
  const auto server = StartServer(SmallServerConfig());
  StockClient client(server->addresses()[0]);
  const auto health = Health::NewStub(client.channel());
  ASSERT_TRUE(client.CreateTable("t", 10, 4, 1.0f).ok());
  Watch watch(*health, "");
  EXPECT_EQ(watch.Next(), HealthCheckResponse::SERVING);
  while (server->load().calls_in_flight > 0) std::this_thread::yield();  // a call ends a moment after its reply
  {
    CallContext context;
    v1::DrainResponse response;
    ASSERT_TRUE(client.admin().Drain(&context, v1::DrainRequest(), &response).ok());
    EXPECT_EQ(response.calls_in_flight(), 0u);
  }
  EXPECT_EQ(watch.Next(), HealthCheckResponse::NOT_SERVING);
  v1::LookupResponse reply;
  const absl::Status refused = client.Lookup(client.LookupOf({1}), &reply);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), Reason::kDraining);
  {
    CallContext context;
    auto stream = client.data().LookupStream(&context);
    v1::LookupStreamResponse frame;
    EXPECT_FALSE(stream->Read(&frame));
    EXPECT_EQ(ReasonOf(ToAbsl(stream->Finish())), Reason::kDraining);
  }
  EXPECT_EQ(ReasonOf(client.OpenSession()), Reason::kDraining);
  EXPECT_GT(client.Stats().uptime_ms() + 1, 0u) << "statistics are served while draining";
  HealthCheckResponse alive;
  ASSERT_TRUE(Check(*health, "embps.liveness", &alive).ok());
  EXPECT_EQ(alive.status(), HealthCheckResponse::SERVING);
}

// Two ranks, so that a lane can be held inside an exchange.
class HeldServerTest : public testing::Test {
 protected:
  void Start(const ServerConfig& config, const Clock* clock = nullptr) {
    ServerOptions options;
    options.config = config;
    options.clock = clock;
    options.decorate_collective = gate_.Decorator();
    server_ = StartServer(std::move(options));
    client_ = std::make_unique<StockClient>(server_->addresses()[0]);
    ASSERT_TRUE(client_->CreateTable("t", 10, 4, 1.0f, /*ranks=*/2).ok());
  }
  // A lookup that stays in the server until the gate opens.
  std::future<absl::Status> HeldLookup() {
    gate_.Close();
    auto result = std::async(std::launch::async, [this] {
      v1::LookupResponse reply;
      return client_->Lookup(client_->LookupOf({1, 7}), &reply);
    });
    gate_.AwaitHeld(2);
    return result;
  }

  FakeClock clock_;
  LaneGate gate_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<StockClient> client_;
};

TEST_F(HeldServerTest, U4_DrainTimesOutAndSaysWhatItWaitsFor) {
  Start(SmallServerConfig(2));
  auto held = HeldLookup();
  const absl::Status status = server_->Drain(milliseconds(50));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 calls in flight"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 tickets not finished"));
  gate_.Open();
  EXPECT_TRUE(held.get().ok()) << "the call in flight still finishes";
  EXPECT_TRUE(server_->Drain(seconds(20)).ok());
}

TEST_F(HeldServerTest, DrainLetsCallsInFlightFinish) {
  Start(SmallServerConfig(2));
  auto held = HeldLookup();
  auto drained = std::async(std::launch::async, [this] { return server_->Drain(seconds(30)); });
  v1::LookupResponse reply;
  while (ReasonOf(client_->Lookup(client_->LookupOf({1}), &reply, milliseconds(100))) != Reason::kDraining) {
  }
  gate_.Open();
  EXPECT_TRUE(held.get().ok());
  EXPECT_TRUE(drained.get().ok());
}

TEST_F(HeldServerTest, LivenessFailsWhenATicketMakesNoProgressAndComesBack) {
  ServerConfig config = SmallServerConfig(2);
  config.liveness_timeout_ms = 5'000;
  config.stall_timeout_ms = 1'000'000;
  Start(config, &clock_);
  const auto health = Health::NewStub(client_->channel());
  Watch liveness(*health, "embps.liveness"), ready(*health, "");
  EXPECT_EQ(liveness.Next(), HealthCheckResponse::SERVING);
  EXPECT_EQ(ready.Next(), HealthCheckResponse::SERVING);
  auto held = HeldLookup();
  std::atomic<bool> heard{false};
  // The probe samples in real time: time must pass between two of its samples.
  std::jthread time([&] {
    while (!heard) {
      clock_.Advance(seconds(1));
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  EXPECT_EQ(liveness.Next(), HealthCheckResponse::NOT_SERVING);
  heard = true;
  time.join();
  gate_.Open();
  EXPECT_TRUE(held.get().ok());
  EXPECT_EQ(liveness.Next(), HealthCheckResponse::SERVING);
  HealthCheckResponse still;
  ASSERT_TRUE(Check(*health, "", &still).ok());
  EXPECT_EQ(still.status(), HealthCheckResponse::SERVING) << "readiness does not follow liveness";
}

}  // namespace
}  // namespace embps
