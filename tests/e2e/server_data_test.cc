// Lookups and pushes through a real server with stock stubs, unary and streamed, right and wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "proto/wire/payload_checksum.h"
#include "tests/support/test_server.h"

namespace embps {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class ServerDataTest : public testing::Test {
 protected:
  void Start(const ServerConfig& config, int64_t rows, int dim) {
    server_ = StartServer(config);
    client_ = std::make_unique<StockClient>(server_->addresses()[0]);
    ASSERT_TRUE(client_->OpenSession().ok());
    const absl::Status created = client_->CreateTable("t", rows, dim, 1.0f, static_cast<int>(config.ranks_per_node[0]));
    ASSERT_TRUE(created.ok()) << created;
  }
  // The first element of each row in the order of `ids`.
  std::vector<float> FirstColumn(const std::vector<int64_t>& ids) {
    v1::LookupResponse reply;
    const absl::Status status = client_->Lookup(client_->LookupOf(ids), &reply);
    EXPECT_TRUE(status.ok()) << status;
    const std::vector<float> values = FloatsOf(reply.blocks());
    std::vector<float> first;
    const auto dim = static_cast<size_t>(client_->table().spec().dim());
    for (size_t i = 0; i < values.size(); i += dim) first.push_back(values[i]);
    return first;
  }
  // Calls end on the server a moment after the client has heard.
  void ExpectNothingLeftBehind() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Server::Load load = server_->load();
    while ((load.calls_in_flight > 0 || load.budget_used_bytes > 0) && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      load = server_->load();
    }
    EXPECT_EQ(load.calls_in_flight, 0);
    EXPECT_EQ(load.budget_used_bytes, 0);
    EXPECT_EQ(load.running + load.waiting, 0);
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<StockClient> client_;
};

TEST_F(ServerDataTest, LookupsAndPushesOfAStockClientAreExactAndDuplicatesAreAnsweredOnce) {
  Start(SmallServerConfig(), 100, 4);
  EXPECT_EQ(FirstColumn({0, 99, 5}), (std::vector<float>{1, 1, 1}));
  const v1::PushGradRequest push = client_->PushOf({5, 7, 5}, 0.25f);
  v1::PushGradResponse applied, again;
  ASSERT_TRUE(client_->Push(push, &applied).ok());
  ASSERT_TRUE(client_->Push(push, &again).ok());
  EXPECT_EQ(applied.rows_updated(), 2u);
  EXPECT_EQ(applied.version(), 1u);
  EXPECT_FALSE(applied.duplicate());
  EXPECT_TRUE(again.duplicate());
  EXPECT_EQ(again.version(), 1u);
  EXPECT_EQ(FirstColumn({5, 6, 7}), (std::vector<float>{0.5f, 1, 0.75f}));
  EXPECT_EQ(client_->Stats().duplicates_suppressed(), 1u);
  EXPECT_EQ(client_->StatsOf("PushGrad").ok(), 2u);
  EXPECT_EQ(client_->StatsOf("Lookup").ok(), 2u);
  ExpectNothingLeftBehind();
}

TEST_F(ServerDataTest, U6_OneUnaryLimitHoldsInBothDirectionsAndIsAdvertised) {
  ServerConfig config = SmallServerConfig();
  config.max_unary_bytes = 64 << 10;
  Start(config, 1000, 64);
  v1::GetServerInfoResponse info;
  {
    CallContext context;
    ASSERT_TRUE(client_->stats().GetServerInfo(&context, v1::GetServerInfoRequest(), &info).ok());
  }
  EXPECT_EQ(info.limits().max_unary_bytes(), 64u << 10);
  EXPECT_EQ(info.limits().max_frame_bytes(), 1u << 20);
  EXPECT_EQ(info.limits().max_message_bytes(), 4u << 20);
  v1::LookupResponse reply;
  EXPECT_TRUE(client_->Lookup(client_->LookupOf(std::vector<int64_t>(256, 3)), &reply).ok()) << "64 KiB of reply";
  const absl::Status reply_too_large = client_->Lookup(client_->LookupOf(std::vector<int64_t>(257, 3)), &reply);
  EXPECT_EQ(ReasonOf(reply_too_large), Reason::kMessageTooLarge) << reply_too_large;
  const absl::Status request_too_large = client_->Lookup(client_->LookupOf(std::vector<int64_t>(5000, 3)), &reply);
  EXPECT_EQ(ReasonOf(request_too_large), Reason::kMessageTooLarge);
  EXPECT_THAT(std::string(request_too_large.message()), HasSubstr("stream"));
  v1::PushGradResponse pushed;
  const absl::Status push_too_large = client_->Push(client_->PushOf(std::vector<int64_t>(257, 3), 1.0f), &pushed);
  EXPECT_EQ(ReasonOf(push_too_large), Reason::kMessageTooLarge);
  EXPECT_THAT(FirstColumn({3}), Each(1.0f)) << "nothing was applied";
  ExpectNothingLeftBehind();
}

// Frames of `frame_bytes` of one tensor after the other.
template <class Frame>
std::vector<Frame> CutIntoFrames(const std::vector<std::pair<std::string* (Frame::*)(), std::string>>& tensors,
                                 size_t frame_bytes) {
  std::vector<Frame> frames;
  for (const auto& [field, bytes] : tensors) {
    for (size_t at = 0; at < bytes.size(); at += frame_bytes) {
      *(frames.emplace_back().*field)() = bytes.substr(at, frame_bytes);
    }
  }
  return frames;
}

TEST_F(ServerDataTest, S17_F8_LookupsAndPushesOf64MegabytesWorkWithAStockClient) {
  constexpr int64_t kBags = 1 << 18;  // 256 bytes each
  Start(SmallServerConfig(), kBags, 64);
  std::vector<int64_t> ids(kBags);
  std::iota(ids.begin(), ids.end(), 0);
  const std::string lengths = BytesOf(std::vector<int64_t>(kBags, 1)), id_bytes = BytesOf(ids);
  const std::string grads = BytesOf(std::vector<float>(kBags * 64, 0.5f));
  {
    auto frames = CutIntoFrames<v1::PushGradStreamRequest>({{&v1::PushGradStreamRequest::mutable_lengths, lengths},
                                                            {&v1::PushGradStreamRequest::mutable_ids, id_bytes},
                                                            {&v1::PushGradStreamRequest::mutable_grads, grads}},
                                                           1 << 20);
    *frames[0].mutable_header() = client_->PushHeader(kBags);
    frames[0].mutable_header()->set_total_bytes(lengths.size() + id_bytes.size() + grads.size());
    CallContext context(std::chrono::seconds(120));
    v1::PushGradStreamResponse response;
    const auto stream = client_->data().PushGradStream(&context, &response);
    for (const auto& frame : frames) ASSERT_TRUE(stream->Write(frame));
    stream->WritesDone();
    const absl::Status status = ToAbsl(stream->Finish());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(response.rows_updated(), static_cast<uint64_t>(kBags));
  }
  auto frames = CutIntoFrames<v1::LookupStreamRequest>(
      {{&v1::LookupStreamRequest::mutable_lengths, lengths}, {&v1::LookupStreamRequest::mutable_ids, id_bytes}},
      1 << 20);
  *frames[0].mutable_header() = client_->LookupHeader(kBags);
  frames[0].mutable_header()->set_total_bytes(lengths.size() + id_bytes.size());
  CallContext context(std::chrono::seconds(120));
  const auto stream = client_->data().LookupStream(&context);
  for (const auto& frame : frames) ASSERT_TRUE(stream->Write(frame));
  stream->WritesDone();
  uint64_t rows = 0, wrong = 0;
  for (v1::LookupStreamResponse reply; stream->Read(&reply);) {
    for (const v1::Run& run : reply.runs()) rows += run.row_count();
    for (const float value : FloatsOf(reply.blocks())) wrong += value != 0.5f;
    EXPECT_EQ(reply.version(), 1u);
    EXPECT_LE(reply.blocks().size(), 1u << 20);
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(rows, static_cast<uint64_t>(kBags));
  EXPECT_EQ(wrong, 0u);
  ExpectNothingLeftBehind();
}

TEST_F(ServerDataTest, ADuplicateStreamIsAnsweredAfterItsFirstFrame) {
  Start(SmallServerConfig(), 100, 4);
  const v1::PushGradRequest push = client_->PushOf({1, 2}, 0.5f);
  v1::PushGradResponse applied;
  ASSERT_TRUE(client_->Push(push, &applied).ok());
  CallContext context;
  v1::PushGradStreamResponse response;
  const auto stream = client_->data().PushGradStream(&context, &response);
  v1::PushGradStreamRequest first;
  *first.mutable_header() = push.header();
  first.mutable_header()->set_total_bytes(1000);
  first.set_lengths(push.lengths());
  ASSERT_TRUE(stream->Write(first));
  const grpc::Status status = stream->Finish();  // although neither side closed the stream
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.duplicate());
  EXPECT_EQ(FirstColumn({1}), (std::vector<float>{0.5f}));
}

TEST_F(ServerDataTest, ACancelledUploadReleasesItsSequenceForTheRetry) {
  Start(SmallServerConfig(), 100, 4);
  const v1::PushGradRequest push = client_->PushOf({1, 2}, 0.5f);
  {
    CallContext context;
    v1::PushGradStreamResponse response;
    const auto stream = client_->data().PushGradStream(&context, &response);
    v1::PushGradStreamRequest first;
    *first.mutable_header() = push.header();
    first.mutable_header()->set_total_bytes(push.lengths().size() + push.ids().size() + push.grads().size());
    first.set_lengths(push.lengths());
    ASSERT_TRUE(stream->Write(first));
    while (server_->load().budget_used_bytes == 0) std::this_thread::yield();
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  v1::PushGradResponse applied;
  absl::Status status = client_->Push(push, &applied);
  while (status.code() == absl::StatusCode::kUnavailable)
    status = client_->Push(push, &applied);  // joined the cancelled one
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(applied.duplicate());
  EXPECT_EQ(FirstColumn({1, 2, 3}), (std::vector<float>{0.5f, 0.5f, 1}));
  ExpectNothingLeftBehind();
}

TEST_F(ServerDataTest, AWrongChecksumIsRefusedAndDoesNotSettleThePush) {
  Start(SmallServerConfig(), 100, 4);
  v1::PushGradRequest push = client_->PushOf({1}, 0.5f);
  push.set_payload_checksum(1);
  v1::PushGradResponse response;
  EXPECT_EQ(ReasonOf(client_->Push(push, &response)), Reason::kChecksumMismatch);
  push.clear_payload_checksum();
  ASSERT_TRUE(client_->Push(push, &response).ok());
  EXPECT_FALSE(response.duplicate());
  EXPECT_EQ(client_->Stats().checksum_failures(), 1u);
}

TEST_F(ServerDataTest, EmptyLookupsAndPushesAreAnswered) {
  Start(SmallServerConfig(2), 100, 4);
  v1::LookupResponse reply;
  ASSERT_TRUE(client_->Lookup(client_->LookupOf({}), &reply).ok());
  EXPECT_EQ(reply.blocks(), "");
  CallContext context;
  const auto stream = client_->data().LookupStream(&context);
  v1::LookupStreamRequest frame;
  *frame.mutable_header() = client_->LookupHeader(0);
  ASSERT_TRUE(stream->Write(frame));
  stream->WritesDone();
  v1::LookupStreamResponse block;
  EXPECT_TRUE(stream->Read(&block)) << "one frame with the version and no rows";
  EXPECT_EQ(block.server_incarnation(), server_->incarnation());
  EXPECT_FALSE(stream->Read(&block));
  EXPECT_TRUE(stream->Finish().ok());
  v1::PushGradResponse pushed;
  ASSERT_TRUE(client_->Push(client_->PushOf({}, 0.0f), &pushed).ok());
  EXPECT_EQ(pushed.version(), 1u);
}

TEST_F(ServerDataTest, BadIdsAreNamedThroughTheWire) {
  Start(SmallServerConfig(2), 100, 4);
  v1::LookupResponse reply;
  const absl::Status status = client_->Lookup(client_->LookupOf({1, 2, 100, -5}), &reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ReasonOf(status), Reason::kIdOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("100"));
  EXPECT_EQ(client_->StatsOf("Lookup").failed(), 1u);
  ExpectNothingLeftBehind();
}

}  // namespace
}  // namespace embps
