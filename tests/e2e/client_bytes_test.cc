// The gRPC transport alone.
#include <string>

#include "client/cpp/grpc_bytes.h"
#include "client/cpp/grpc_transport.h"
#include "client/cpp/methods.h"
#include "embps/error.h"
#include "embps/v1/stats.pb.h"
#include "gtest/gtest.h"
#include "proto/base/mutex.h"
#include "tests/support/test_cluster.h"

namespace embps::client {
namespace {

// Sends the given messages and keeps the answer.
class RecordingHandler final : public CallHandler {
 public:
  explicit RecordingHandler(std::vector<Message> requests) : requests_(std::move(requests)) {}
  void NextRequest(Message* message, bool* last) override {
    *message = requests_.at(next_++);
    *last = next_ == requests_.size();
  }
  absl::Status OnReply(Message message) override {
    MutexLock lock(&mu_);
    ++replies_;
    return absl::OkStatus();
  }
  void OnDone(const absl::Status& status) override {
    MutexLock lock(&mu_);
    status_ = status;
    done_ = true;
    changed_.NotifyAll();
  }
  absl::Status Wait() {
    MutexLock lock(&mu_);
    while (!done_) changed_.Wait(&mu_);
    return status_;
  }
  int replies() {
    MutexLock lock(&mu_);
    return replies_;
  }

 private:
  const std::vector<Message> requests_;
  size_t next_ = 0;
  Mutex mu_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  int replies_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

absl::Status Send(Transport& transport, Scheduler& scheduler, const std::string& method, std::vector<Message> requests,
                  int* replies = nullptr) {
  auto handler = std::make_shared<RecordingHandler>(std::move(requests));
  transport.Start({method, CallKind::kUnary, scheduler.Now() + std::chrono::seconds(30)}, handler);
  absl::Status status = handler->Wait();
  if (replies != nullptr) *replies = handler->replies();
  return status;
}

TEST(GrpcTransportTest, F7_AMessageOfTwoGigabytesIsRefusedHereAndTheServerLives) {
  const testing::TestCluster cluster({1});
  ThreadScheduler scheduler;
  const auto transport = NewGrpcTransportFactory({}, &scheduler)->Connect(cluster.address(0));
  const auto chunk = std::make_shared<std::string>(1 << 20, 'x');
  Message huge;
  for (int i = 0; i < 2049; ++i) huge.pieces.push_back({*chunk, chunk});
  const absl::Status status = Send(*transport, scheduler, kGetServerInfo, {huge});
  EXPECT_EQ(ErrorReason(status), "MESSAGE_TOO_LARGE");
  int replies = 0;
  EXPECT_TRUE(Send(*transport, scheduler, kGetServerInfo, {Message()}, &replies).ok());
  EXPECT_EQ(replies, 1);
}

TEST(GrpcTransportTest, BuffersKeepTheirBytesWithoutCopyingLargeOnes) {
  auto large = std::make_shared<std::string>(10'000, 'a');
  std::weak_ptr<std::string> alive = large;
  const std::string small = "header";
  grpc::ByteBuffer buffer = ToByteBuffer({{{small, nullptr}, {*large, large}}});
  const char* const address = large->data();
  large.reset();
  EXPECT_FALSE(alive.expired());
  const Message back = ToMessage(buffer);
  ASSERT_EQ(back.pieces.size(), 2u);
  EXPECT_EQ(back.pieces[0].bytes, small);
  EXPECT_EQ(back.pieces[1].bytes.data(), address);
  EXPECT_EQ(back.size(), 10'006u);
}

}  // namespace
}  // namespace embps::client
