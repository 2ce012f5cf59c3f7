// Bytes that are no message, to every method of every service: a typed error each time, and the server goes on.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "embps/v1/admin.pb.h"
#include "embps/v1/embedding.pb.h"
#include "embps/v1/stats.pb.h"
#include "embps/v1/table.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "tests/support/test_server.h"

namespace embps {
namespace {

using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using ::testing::HasSubstr;

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const FileDescriptor* file :
       {v1::LookupRequest::descriptor()->file(), v1::NewTable::descriptor()->file(), v1::Limits::descriptor()->file(),
        v1::DrainRequest::descriptor()->file(), grpc::health::v1::HealthCheckRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) methods.push_back(file->service(s)->method(m));
    }
  }
  return methods;
}

grpc::ByteBuffer Buffer(absl::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

// Sends one message to any method through a plain bidirectional call, closes the request side and drains the replies.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) : stub_(channel) {
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(Tag());
    Next();
  }
  ~RawCall() {
    queue_.Shutdown();
    for (void* tag; queue_.Next(&tag, &ok_);) {
    }
  }

  absl::Status Send(const grpc::ByteBuffer& message) {
    call_->WriteLast(message, grpc::WriteOptions(), Tag());
    Next();
    for (grpc::ByteBuffer reply;;) {
      call_->Read(&reply, Tag());
      if (!Next()) break;
      std::vector<grpc::Slice> slices;
      EXPECT_TRUE(reply.Dump(&slices).ok());
      for (const grpc::Slice& slice : slices) replies_.append(slice.begin(), slice.end());
    }
    grpc::Status status;
    call_->Finish(&status, Tag());
    Next();
    return ToAbsl(status);
  }
  // Everything that was received.
  const std::string& replies() const { return replies_; }

 private:
  void* Tag() { return this; }
  bool Next() {
    void* tag;
    return queue_.Next(&tag, &ok_) && ok_;
  }

  CallContext context_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool ok_ = false;
  std::string replies_;
};

std::string PathOf(const MethodDescriptor* method) {
  return "/" + method->service()->full_name() + "/" + method->name();
}

class MalformedBytesTest : public testing::Test {
 protected:
  const std::unique_ptr<Server> server_ = StartServer(SmallServerConfig());
  StockClient client_{server_->addresses()[0]};
};

TEST_F(MalformedBytesTest, EveryMethodAnswersWithReasonAndMessageName) {
  const std::vector<std::string> malformed = {
      std::string("\x0a\xff\xff\xff\xff\x0f", 6),      // a field longer than the message
      std::string("\xff\xff\xff\xff\xff\xff\xff", 7),  // an endless tag
      std::string("\x0f", 1),                          // a wire type that does not exist
      std::string("\x00\x01", 2),                      // field number zero
      std::string("\x0b\x0b\x0b", 3),                  // a group that never ends
  };
  const auto methods = AllMethods();
  ASSERT_EQ(methods.size(), 6u + 8 + 2 + 1 + 2);
  for (const MethodDescriptor* method : methods) {
    for (const std::string& bytes : malformed) {
      const absl::Status status = RawCall(client_.channel(), PathOf(method)).Send(Buffer(bytes));
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << method->full_name() << ": " << status;
      EXPECT_EQ(ReasonOf(status), Reason::kMalformed) << method->full_name();
      EXPECT_THAT(std::string(status.message()), HasSubstr(method->input_type()->name()));
    }
  }
  EXPECT_EQ(server_->load().budget_used_bytes, 0);
  ASSERT_TRUE(client_.CreateTable("still", 10, 4, 1.0f).ok()) << "the next call works";
}

TEST_F(MalformedBytesTest, UnknownMethodIsUnimplemented) {
  EXPECT_EQ(RawCall(client_.channel(), "/embps.v1.EmbeddingService/Nothing").Send(Buffer("")).code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(MalformedBytesTest, ReflectionListsTheServices) {
  const std::string list_services("\x3a\x00", 2);
  RawCall call(client_.channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  EXPECT_TRUE(call.Send(Buffer(list_services)).ok());
  for (const char* service : {"embps.v1.EmbeddingService", "embps.v1.TableService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(call.replies(), HasSubstr(service));
  }
}

TEST_F(MalformedBytesTest, DataCallsWithoutAHeaderAreMalformed) {
  for (const char* method : {"Lookup", "PushGrad", "LookupStream", "PushGradStream"}) {
    const absl::Status status =
        RawCall(client_.channel(), std::string("/embps.v1.EmbeddingService/") + method).Send(Buffer(""));
    EXPECT_EQ(ReasonOf(status), Reason::kMalformed) << method << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("header"));
  }
}

TEST_F(MalformedBytesTest, ASecondHeaderInAStreamIsRefused) {
  ASSERT_TRUE(client_.CreateTable("t", 100, 4, 1.0f).ok());
  CallContext context;
  auto stream = client_.data().LookupStream(&context);
  v1::LookupStreamRequest frame;
  *frame.mutable_header() = client_.LookupHeader(2);
  frame.mutable_header()->set_total_bytes(32);
  frame.set_lengths(BytesOf<int64_t>({1, 1}));
  ASSERT_TRUE(stream->Write(frame));
  stream->Write(frame);
  v1::LookupStreamResponse reply;
  EXPECT_FALSE(stream->Read(&reply));
  const absl::Status status = ToAbsl(stream->Finish());
  EXPECT_EQ(ReasonOf(status), Reason::kMalformed) << status;
}

TEST_F(MalformedBytesTest, AStreamThatEndsTooEarlyIsRefusedAndLeavesNothingBehind) {
  ASSERT_TRUE(client_.CreateTable("t", 100, 4, 1.0f).ok());
  CallContext context;
  auto stream = client_.data().LookupStream(&context);
  v1::LookupStreamRequest frame;
  *frame.mutable_header() = client_.LookupHeader(2);
  frame.mutable_header()->set_total_bytes(32);
  frame.set_lengths(BytesOf<int64_t>({1, 1}));
  ASSERT_TRUE(stream->Write(frame));
  stream->WritesDone();
  v1::LookupStreamResponse reply;
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(ReasonOf(ToAbsl(stream->Finish())), Reason::kMalformed);
  v1::LookupResponse ok;
  EXPECT_TRUE(client_.Lookup(client_.LookupOf({1}), &ok).ok());
}

TEST_F(MalformedBytesTest, CompressedMessagesAreRefusedBeforeTheyAreUnpacked) {
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  const auto channel =
      grpc::CreateCustomChannel(server_->addresses()[0], grpc::InsecureChannelCredentials(), arguments);
  const std::string zeros(3 << 20, '\0');
  const absl::Status status = RawCall(channel, "/embps.v1.EmbeddingService/Lookup").Send(Buffer(zeros));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

TEST_F(MalformedBytesTest, F7_AMessageOfAlmostTwoGigabytesIsRefusedAndTheServerLives) {
  const std::string megabyte(1 << 20, 'x');
  const grpc::Slice piece(megabyte.data(), megabyte.size(), grpc::Slice::STATIC_SLICE);
  std::vector<grpc::Slice> pieces(2047, piece);
  pieces.emplace_back(megabyte.data(), megabyte.size() - 1, grpc::Slice::STATIC_SLICE);
  const int64_t resident = ResidentBytes();
  const absl::Status status = RawCall(client_.channel(), "/embps.v1.EmbeddingService/Lookup")
                                  .Send(grpc::ByteBuffer(pieces.data(), pieces.size()));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_LT(ResidentBytes() - resident, 256 << 20);
  EXPECT_TRUE(client_.CreateTable("still", 10, 4, 1.0f).ok());
}

}  // namespace
}  // namespace embps
