// More than the server can do at once: what waits, what is dropped, what is refused, and what it costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <future>
#include <thread>

#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace embps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Lookups in flight together, through the callback API.
class ManyLookups {
 public:
  ManyLookups(StockClient& client, int count, milliseconds timeout) : calls_(static_cast<size_t>(count)) {
    const v1::LookupRequest request = client.LookupOf({1, 7});
    for (Call& call : calls_) {
      call.context.set_deadline(std::chrono::system_clock::now() + timeout);
      call.request = request;
      client.data().async()->Lookup(&call.context, &call.request, &call.reply, [this, &call](grpc::Status status) {
        MutexLock lock(&mu_);
        call.status = ToAbsl(status);
        ++finished_;
        changed_.NotifyAll();
      });
    }
  }
  ~ManyLookups() { AwaitAll(); }
  void AwaitAll() {
    MutexLock lock(&mu_);
    while (finished_ < calls_.size()) changed_.Wait(&mu_);
  }
  // After AwaitAll.
  int CountOf(absl::StatusCode code) const {
    return static_cast<int>(
        std::count_if(calls_.begin(), calls_.end(), [&](const Call& c) { return c.status.code() == code; }));
  }
  int CountOf(Reason reason) const {
    return static_cast<int>(
        std::count_if(calls_.begin(), calls_.end(), [&](const Call& c) { return ReasonOf(c.status) == reason; }));
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::LookupRequest request;
    v1::LookupResponse reply;
    absl::Status status;
  };
  std::vector<Call> calls_;
  Mutex mu_;
  CondVar changed_;
  size_t finished_ ABSL_GUARDED_BY(mu_) = 0;
};

class HeldLanesTest : public testing::Test {
 protected:
  void Start(const ServerConfig& config) {
    ServerOptions options;
    options.config = config;
    options.decorate_collective = gate_.Decorator();
    server_ = StartServer(std::move(options));
    client_ = std::make_unique<StockClient>(server_->addresses()[0]);
    ASSERT_TRUE(client_->CreateTable("t", 10, 4, 1.0f, /*ranks=*/2).ok());
  }
  void AwaitLoad(int64_t running, int64_t waiting) {
    for (Server::Load load; load.running != running || load.waiting != waiting; load = server_->load()) {
      std::this_thread::yield();
    }
  }

  LaneGate gate_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<StockClient> client_;
};

TEST_F(HeldLanesTest, F12_CallsWhoseClientsTimedOutAreDroppedBeforeExecutionAndCounted) {
  ServerConfig config = SmallServerConfig(2);
  config.max_running_calls = 1;
  Start(config);
  gate_.Close();
  {
    ManyLookups running(*client_, 1, seconds(60));
    gate_.AwaitHeld(2);
    ManyLookups doomed(*client_, 100, milliseconds(300));
    doomed.AwaitAll();
    EXPECT_EQ(doomed.CountOf(absl::StatusCode::kDeadlineExceeded), 100);
    gate_.Open();
    running.AwaitAll();
    EXPECT_EQ(running.CountOf(absl::StatusCode::kOk), 1);
  }
  AwaitLoad(0, 0);
  const v1::CallStats lookups = client_->StatsOf("Lookup");
  EXPECT_EQ(lookups.ok(), 1u);
  EXPECT_EQ(lookups.expired_before_start() + lookups.failed(), 100u);
  EXPECT_GE(lookups.expired_before_start(), 100u - lookups.failed());
  EXPECT_EQ(client_->Stats().tables(0).lookups(), 1u) << "none of them was executed";
  EXPECT_EQ(server_->load().budget_used_bytes, 0);
}

TEST_F(HeldLanesTest, AFullLineIsQueueFull) {
  ServerConfig config = SmallServerConfig(2);
  config.max_running_calls = 1;
  config.max_waiting_calls = 2;
  Start(config);
  gate_.Close();
  ManyLookups calls(*client_, 10, seconds(60));
  AwaitLoad(1, 2);
  while (client_->StatsOf("Lookup").failed() < 7) std::this_thread::yield();
  gate_.Open();
  calls.AwaitAll();
  EXPECT_EQ(calls.CountOf(absl::StatusCode::kOk), 3);
  EXPECT_EQ(calls.CountOf(Reason::kQueueFull), 7);
}

TEST_F(HeldLanesTest, F9_FiveThousandHeldCallsDoNotGrowTheThreads) {
  Start(SmallServerConfig(2));
  gate_.Close();
  ManyLookups calls(*client_, 5000, seconds(240));
  AwaitLoad(32, 5000 - 32);
  // Of server and client together: both are in this process.
  const int64_t threads = ThreadCount(), cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  EXPECT_LE(threads, 2 * cores + 32);
  std::printf("F9: 5000 calls held, %lld threads on %lld cores\n", static_cast<long long>(threads),
              static_cast<long long>(cores));
  gate_.Open();
  calls.AwaitAll();
  EXPECT_EQ(calls.CountOf(absl::StatusCode::kOk), 5000);
}

TEST_F(HeldLanesTest, AServerThatEndsCancelsWhatWaitsAndLetsTicketsRunOut) {
  ServerConfig config = SmallServerConfig(2);
  config.max_running_calls = 4;
  Start(config);
  gate_.Close();
  ManyLookups calls(*client_, 50, seconds(60));
  AwaitLoad(4, 46);
  gate_.AwaitHeld(2);
  auto ended = std::async(std::launch::async, [this] { server_.reset(); });
  calls.AwaitAll();
  EXPECT_EQ(calls.CountOf(absl::StatusCode::kOk), 0);
  gate_.Open();
  ended.get();
}

// Calls of all kinds whose clients leave at any moment.
TEST_F(HeldLanesTest, CallsCancelledAtAnyMomentLeaveNothingBehind) {
  Start(SmallServerConfig(2));
  ASSERT_TRUE(client_->CreateTable("wide", 1000, 256, 1.0f, /*ranks=*/2).ok());
  ASSERT_TRUE(client_->OpenSession().ok());
  const std::vector<int64_t> ids(1500, 7);
  for (int i = 0; i < 200; ++i) {
    const auto patience = std::chrono::microseconds(i * 50);
    CallContext context;
    std::jthread canceller([&] {
      std::this_thread::sleep_for(patience);
      context.TryCancel();
    });
    v1::LookupRequest lookup = client_->LookupOf(ids);
    v1::PushGradRequest push = client_->PushOf(ids, 0.0f);
    if (i % 4 == 0) {
      v1::LookupResponse reply;
      client_->data().Lookup(&context, lookup, &reply);
    } else if (i % 4 == 1) {
      v1::PushGradResponse reply;
      client_->data().PushGrad(&context, push, &reply);
    } else if (i % 4 == 2) {
      v1::LookupStreamRequest frame;
      frame.ParseFromString(lookup.SerializeAsString());
      frame.mutable_header()->set_total_bytes(frame.lengths().size() + frame.ids().size());
      const auto stream = client_->data().LookupStream(&context);
      stream->Write(frame);
      stream->WritesDone();
      for (v1::LookupStreamResponse reply; stream->Read(&reply);) {
      }
      stream->Finish();
    } else {
      v1::PushGradStreamRequest frame;
      frame.ParseFromString(push.SerializeAsString());
      frame.mutable_header()->set_total_bytes(push.lengths().size() + push.ids().size() + push.grads().size());
      frame.clear_grads();
      v1::PushGradStreamRequest rest;
      rest.set_grads(push.grads().substr(0, 1 << 20));
      v1::PushGradStreamResponse reply;
      const auto stream = client_->data().PushGradStream(&context, &reply);
      stream->Write(frame);
      stream->Write(rest);
      stream->WritesDone();
      stream->Finish();
    }
  }
  AwaitLoad(0, 0);
  for (Server::Load load = server_->load(); load.calls_in_flight > 0 || load.budget_used_bytes > 0;) {
    std::this_thread::yield();
    load = server_->load();
  }
  v1::LookupResponse reply;
  EXPECT_TRUE(client_->Lookup(client_->LookupOf({7}), &reply).ok());
}

// A LookupStream whose client asks for `bags` rows and never reads.
class DeafLookup {
 public:
  DeafLookup(StockClient& client, int64_t bags, milliseconds timeout) : context_(timeout) {
    stream_ = client.data().LookupStream(&context_);
    v1::LookupStreamRequest frame;
    *frame.mutable_header() = client.LookupHeader(bags);
    frame.set_lengths(BytesOf(std::vector<int64_t>(static_cast<size_t>(bags), 1)));
    frame.set_ids(BytesOf(std::vector<int64_t>(static_cast<size_t>(bags), 3)));
    frame.mutable_header()->set_total_bytes(frame.lengths().size() + frame.ids().size());
    stream_->Write(frame);
  }
  ~DeafLookup() { context_.TryCancel(); }
  absl::Status Finish() {
    v1::LookupStreamResponse reply;
    while (stream_->Read(&reply)) {
    }
    return ToAbsl(stream_->Finish());
  }

 private:
  CallContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LookupStreamRequest, v1::LookupStreamResponse>> stream_;
};

TEST(SlowReaderTest, AReaderThatNeverReadsIsCutAndDoesNotDelayOthers) {
  ServerConfig config = SmallServerConfig();
  config.stall_timeout_ms = 500;
  const auto server = StartServer(config);
  StockClient deaf(server->addresses()[0]), busy(server->addresses()[0]);
  ASSERT_TRUE(deaf.CreateTable("t", 10, 256, 1.0f).ok());
  ASSERT_TRUE(busy.CreateTable("t", 10, 256, 1.0f).ok()) << "the same table again";
  DeafLookup stalled(deaf, 30'000, seconds(60));  // 30 MB
  while (server->load().budget_used_bytes < 30'000 * 1024) std::this_thread::yield();
  auto slowest = milliseconds(0);
  int others = 0;
  // The admission of the stalled reply comes back once the call is cut.
  for (; server->load().budget_used_bytes > 0; ++others) {
    v1::LookupResponse reply;
    const auto began = std::chrono::steady_clock::now();
    ASSERT_TRUE(busy.Lookup(busy.LookupOf({1, 2}), &reply).ok());
    slowest = std::max(slowest, std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began));
  }
  EXPECT_GT(others, 10);
  EXPECT_LT(slowest, milliseconds(400)) << "less than the stall";
  EXPECT_FALSE(stalled.Finish().ok());
}

int64_t ResidentBytesOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

TEST(OverloadTest, S19_FiveTimesTheBudgetIsPushedBackAndMemoryStaysWithinIt) {
  constexpr int64_t kBudget = 128 << 20;
  ServerProcess process(EMBPS_SERVER_BINARY, {"--listen", "127.0.0.1:0", "--budget_bytes", std::to_string(kBudget)});
  const std::string address = process.AwaitReady();
  ASSERT_NE(address, "") << process.err();
  StockClient client(address);
  ASSERT_TRUE(client.CreateTable("t", 10, 256, 1.0f).ok());
  const int64_t before = ResidentBytesOf(process.pid());
  // Each holds 8 MB of reply: 80 of them are five times the budget.
  std::vector<std::unique_ptr<StockClient>> clients;
  std::vector<std::unique_ptr<DeafLookup>> held;
  for (int i = 0; i < 80; ++i) {
    if (i % 10 == 0) {
      clients.push_back(std::make_unique<StockClient>(address));
      ASSERT_TRUE(clients.back()->CreateTable("t", 10, 256, 1.0f).ok());
    }
    held.push_back(std::make_unique<DeafLookup>(*clients.back(), 8'000, seconds(120)));
  }
  // The line is full by now, or soon: unary calls are told to back off, with a reason.
  v1::LookupResponse reply;
  absl::Status refused;
  while (refused.ok()) refused = client.Lookup(client.LookupOf(std::vector<int64_t>(1000, 3)), &reply);
  EXPECT_EQ(ReasonOf(refused), Reason::kInflightBytes) << refused;
  const v1::GetStatsResponse stats = client.Stats();
  EXPECT_LE(stats.budget_used_bytes(), static_cast<uint64_t>(kBudget));
  EXPECT_GT(stats.budget_used_bytes(), static_cast<uint64_t>(kBudget) / 2);
  EXPECT_GT(stats.budget_refused(), 0u);
  const int64_t grown = ResidentBytesOf(process.pid()) - before;
  EXPECT_LE(grown, kBudget);
  std::printf("S19: budget %lld, admitted %llu, refused %llu, resident memory grew by %lld bytes\n",
              static_cast<long long>(kBudget), static_cast<unsigned long long>(stats.budget_used_bytes()),
              static_cast<unsigned long long>(stats.budget_refused()), static_cast<long long>(grown));
  held.clear();
  while (client.Stats().budget_used_bytes() > 0) std::this_thread::yield();
  EXPECT_TRUE(client.Lookup(client.LookupOf({1}), &reply).ok()) << "it recovers by itself";
  EXPECT_LE(ResidentBytesOf(process.pid()) - before, kBudget);
}

}  // namespace
}  // namespace embps
