// The parts of the RPC edge that need no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "embps/v1/embedding.pb.h"
#include "proto/base/error.h"
#include "proto/wire/error_details.h"
#include "server/rpc/byte_buffers.h"
#include "server/rpc/call_tracker.h"
#include "server/rpc/data_call.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/health_board.h"
#include "server/rpc/liveness.h"
#include "server/rpc/stall_watch.h"
#include "server/rpc/ticker.h"

namespace embps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(LivenessProbeTest, OnlyTicketsThatWaitWithoutProgressAreDeath) {
  FakeClock clock;
  LivenessProbe probe(seconds(10), clock.Now());
  clock.Advance(seconds(60));
  EXPECT_TRUE(probe.Alive(5, 5, clock.Now())) << "idle is alive";
  clock.Advance(seconds(9));
  EXPECT_TRUE(probe.Alive(8, 5, clock.Now()));
  clock.Advance(seconds(1));
  EXPECT_FALSE(probe.Alive(8, 5, clock.Now()));
  EXPECT_TRUE(probe.Alive(8, 6, clock.Now())) << "one ticket finished";
  clock.Advance(seconds(9));
  EXPECT_TRUE(probe.Alive(9, 6, clock.Now()));
}

class CountingWatcher : public HealthBoard::Watcher {
 public:
  void Changed() override { ++changes; }
  int changes = 0;
};

TEST(HealthBoardTest, TellsStateAndEndsWatches) {
  HealthBoard board;
  const auto watcher = std::make_shared<CountingWatcher>();
  board.Watch(watcher);
  EXPECT_EQ(board.Read(kWholeServer).serving, false);
  EXPECT_EQ(board.Read("nobody").serving, std::nullopt);
  board.SetReady(true);
  EXPECT_EQ(board.Read(kWholeServer).serving, true);
  EXPECT_EQ(board.Read(kDataService).serving, true);
  EXPECT_EQ(watcher->changes, 1);
  board.SetAlive(true);
  EXPECT_EQ(watcher->changes, 1) << "nothing changed";
  board.SetAlive(false);
  EXPECT_EQ(board.Read(kLiveness).serving, false);
  board.StartDraining();
  EXPECT_EQ(board.Read(kDataService).serving, false);
  EXPECT_FALSE(board.Read(kDataService).ended);
  board.SetReady(true);
  EXPECT_EQ(board.Read(kDataService).serving, false) << "draining is for good";
  board.EndWatches();
  EXPECT_TRUE(board.Read("nobody").ended);
  EXPECT_EQ(watcher->changes, 4);
}

class FakeCall : public Stallable {
 public:
  void CutIfStalled(Clock::TimePoint oldest) override { cut = cut || progress < oldest; }
  Clock::TimePoint progress;
  bool cut = false;
};

TEST(StallWatchTest, CutsWhatMadeNoProgressForTheTimeout) {
  FakeClock clock;
  StallWatch watch(milliseconds(100));
  FakeCall slow, quick, gone;
  for (FakeCall* call : {&slow, &quick, &gone}) {
    call->progress = clock.Now();
    watch.Add(call);
  }
  watch.Remove(&gone);
  clock.Advance(milliseconds(100));
  watch.Tick(clock.Now());
  EXPECT_FALSE(slow.cut);
  quick.progress = clock.Now();
  clock.Advance(milliseconds(1));
  watch.Tick(clock.Now());
  EXPECT_TRUE(slow.cut);
  EXPECT_FALSE(quick.cut);
  EXPECT_FALSE(gone.cut);
  watch.Remove(&slow);
  watch.Remove(&quick);
}

TEST(CallTrackerTest, DrainingRefusesNewCallsAndWaitsForOldOnes) {
  CallTracker calls;
  ASSERT_TRUE(calls.Enter(false));
  calls.StartDraining();
  EXPECT_FALSE(calls.Enter(/*served_while_draining=*/false));
  EXPECT_TRUE(calls.Enter(/*served_while_draining=*/true));
  calls.Leave();
  EXPECT_FALSE(calls.WaitIdle(std::chrono::steady_clock::now()));
  std::jthread leaver([&] { calls.Leave(); });
  EXPECT_TRUE(calls.WaitIdle(std::chrono::steady_clock::now() + seconds(30)));
  EXPECT_EQ(calls.in_flight(), 0);
}

TEST(TickerTest, TicksUntilDestroyed) {
  Mutex mu;
  CondVar ticked;
  int ticks = 0;
  {
    Ticker ticker(milliseconds(1), [&] {
      MutexLock lock(&mu);
      ++ticks;
      ticked.NotifyAll();
    });
    MutexLock lock(&mu);
    while (ticks < 3) ticked.Wait(&mu);
  }
  const int after = ticks;
  EXPECT_GE(after, 3);
}

TEST(ByteBuffersTest, OwnedPiecesTravelWithoutACopyAndAreReleasedOnce) {
  SliceLedger ledger;
  auto owner = std::make_shared<std::vector<char>>(4096, 'x');
  const std::weak_ptr<std::vector<char>> watch = owner;
  const char* data = owner->data();
  wire::OutMessage message;
  message.push_back({"header", nullptr});
  message.push_back({absl::string_view(data, 4096), std::move(owner)});
  {
    grpc::ByteBuffer buffer = ToByteBuffer(message, ledger);
    message.clear();
    ReceivedMessage received;
    ASSERT_TRUE(received.Assign(buffer).ok());
    ASSERT_EQ(received.pieces().size(), 2u);
    EXPECT_EQ(received.pieces()[0], "header");
    EXPECT_EQ(received.pieces()[1].data(), data);
    EXPECT_EQ(received.bytes(), 6 + 4096);
    EXPECT_FALSE(watch.expired());
  }
  ledger.WaitIdle();
  EXPECT_TRUE(watch.expired());
}

TEST(GrpcStatusTest, ErrorsCarryReasonAndMetadataInTheTrailer) {
  const absl::Status error = MakeError(Reason::kIdOutOfRange, "table t: id 9", {{"table", "t"}, {"rows", "9"}});
  const grpc::Status status = ToGrpc(error);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(status.error_message(), "table t: id 9");
  EXPECT_LE(status.error_details().size() + status.error_message().size(), wire::kMaxErrorTrailerBytes);
  const absl::Status back =
      wire::DecodeError(absl::StatusCode::kOutOfRange, status.error_message(), status.error_details());
  EXPECT_EQ(ReasonOf(back), Reason::kIdOutOfRange);
  EXPECT_EQ(MetadataValue(back, "rows"), "9");
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(CheckPayloadTest, TooLargeSaysWhatToDo) {
  EXPECT_TRUE(CheckPayload(10, 10, "LookupRequest").ok());
  const absl::Status status = CheckPayload(11, 10, "LookupRequest");
  EXPECT_EQ(ReasonOf(status), Reason::kMessageTooLarge);
  EXPECT_THAT(std::string(status.message()), HasSubstr("LookupRequest carries 11 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stream"));
  EXPECT_EQ(MetadataValue(status, "limit"), "10");
}

}  // namespace
}  // namespace embps
