// Requests that are wrong in one way each, sent as raw bytes: the right code, reason and field; nothing changes; and
// the next good call works.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proto/wire/error_details.h"
#include "tests/e2e/malformed_cases.h"

namespace embps {
namespace {

using ::testing::HasSubstr;

// Sends all messages to any method and returns how the call ended. A server may end it before the last one is sent.
grpc::Status SendRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::vector<std::string>& messages) {
  CallContext context;
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  const auto next = [&] {
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(tag);
  next();
  for (const std::string& message : messages) {
    const grpc::Slice slice(message);
    call->Write(grpc::ByteBuffer(&slice, 1), tag);
    if (!next()) break;
  }
  call->WritesDone(tag);
  next();
  grpc::ByteBuffer reply;
  do {
    call->Read(&reply, tag);
  } while (next());
  grpc::Status status;
  call->Finish(&status, tag);
  next();
  queue.Shutdown();
  while (next()) {
  }
  return status;
}

v1::Table CreateAdamTable(StockClient& client) {
  v1::CreateTablesRequest request;
  v1::NewTable& table = *request.add_tables();
  table.mutable_spec()->set_name("adam");
  table.mutable_spec()->set_row_count(10);
  table.mutable_spec()->set_dim(2);
  table.mutable_spec()->set_id_type(v1::ID_TYPE_INT32);
  table.mutable_spec()->mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ADAM);
  table.mutable_placement()->set_sharding_type(v1::SHARDING_TYPE_TABLE_WISE);
  v1::Shard& shard = *table.mutable_placement()->add_shards();
  shard.set_row_end(10);
  shard.set_column_end(2);
  v1::CreateTablesResponse response;
  CallContext context;
  EXPECT_TRUE(client.tables().CreateTables(&context, request, &response).ok());
  return response.tables(0).table();
}

class MalformedRequestTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(client_.CreateTable("t", 100, 4, 1.0f).ok());
    target_.adam = CreateAdamTable(client_);
    ASSERT_TRUE(client_.OpenSession().ok());
    PushGood();
    PushGood();
  }

  void PushGood() {
    target_.last_push = client_.PushOf({0}, 1.0f);
    ASSERT_TRUE(client_.Push(target_.last_push, &last_reply_).ok());
    ASSERT_FALSE(last_reply_.duplicate());
    ++pushes_;
  }

  // Every row with its optimizer state, the tables with steps and rates, and what the server counts of its state.
  std::string State() {
    std::string state;
    for (const v1::Table& table : {client_.table(), target_.adam}) {
      v1::ReadRowsRequest request;
      request.set_table_uid(table.table_uid());
      request.set_placement_version(table.placement_version());
      request.set_with_state(true);
      std::vector<int64_t> ids(static_cast<size_t>(table.spec().row_count()));
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
      request.set_ids(BytesOf(ids));
      v1::ReadRowsResponse rows;
      CallContext context;
      EXPECT_TRUE(client_.tables().ReadRows(&context, request, &rows).ok());
      state += rows.SerializeAsString();
    }
    v1::ListTablesResponse tables;
    CallContext context;
    EXPECT_TRUE(client_.tables().ListTables(&context, {}, &tables).ok());
    const v1::GetStatsResponse stats = client_.Stats();
    return state + tables.SerializeAsString() + " version " + std::to_string(stats.version()) + " sessions " +
           std::to_string(stats.sessions_open());
  }

  void Refused(const MalformedCase& wrong) {
    const grpc::Status raw = SendRaw(client_.channel(), wrong.method, wrong.frames(target_));
    const absl::Status status = ToAbsl(raw);
    EXPECT_EQ(status.code(), CodeOf(wrong.reason)) << status;
    EXPECT_EQ(std::string(ReasonName(ReasonOf(status))), std::string(ReasonName(wrong.reason))) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.text));
    EXPECT_FALSE(raw.error_details().empty());
    EXPECT_LE(raw.error_message().size() + raw.error_details().size(), wire::kMaxErrorTrailerBytes);
  }

  // The window still knows the last push; a lookup and a new push work and answer what they should.
  void GoesOn() {
    v1::PushGradResponse again;
    ASSERT_TRUE(client_.Push(target_.last_push, &again).ok());
    EXPECT_TRUE(again.duplicate());
    EXPECT_EQ(again.version(), last_reply_.version());
    PushGood();
    EXPECT_EQ(last_reply_.version(), static_cast<uint64_t>(pushes_));
    v1::LookupResponse rows;
    ASSERT_TRUE(client_.Lookup(client_.LookupOf({0, 3}), &rows).ok());
    const float moved = 1.0f - static_cast<float>(pushes_);
    EXPECT_EQ(FloatsOf(rows.blocks()), (std::vector<float>{moved, moved, moved, moved, 1, 1, 1, 1}));
  }

  void Run(const MalformedCases& cases, size_t at_least) {
    std::set<std::string> names;
    for (const MalformedCase& wrong : cases) {
      SCOPED_TRACE(wrong.name);
      EXPECT_TRUE(names.insert(wrong.name).second) << "two cases of one name";
      const std::string before = State();
      Refused(wrong);
      EXPECT_EQ(State(), before) << "a refused request left a trace";
      GoesOn();
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(cases.size(), at_least);
    ExpectNothingHeld();
    std::printf("%zu malformed requests refused\n", cases.size());
  }

  // Calls end on the server a moment after the client has heard.
  void ExpectNothingHeld() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (server_->load().budget_used_bytes > 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(server_->load().budget_used_bytes, 0);
  }

  const std::unique_ptr<Server> server_ = StartServer(SmallServerConfig());
  StockClient client_{server_->addresses()[0]};
  MalformedTarget target_{client_, {}, {}};
  v1::PushGradResponse last_reply_;
  int pushes_ = 0;  // good ones
};

TEST_F(MalformedRequestTest, F22_N18_S25_U9_EveryFieldOfALookup) {
  MalformedCases cases;
  AddLookupCases(cases);
  Run(cases, 150);
}

TEST_F(MalformedRequestTest, F22_N18_S25_S29_EveryFieldOfAPush) {
  MalformedCases cases;
  AddPushCases(cases);
  Run(cases, 200);
}

TEST_F(MalformedRequestTest, EveryFieldOfTableAndSessionRequests) {
  MalformedCases cases;
  AddTableCases(cases);
  Run(cases, 100);
}

TEST_F(MalformedRequestTest, EveryFieldOfRowRequests) {
  MalformedCases cases;
  AddRowCases(cases);
  Run(cases, 60);
}

TEST_F(MalformedRequestTest, BrokenMessagesAndFramesOutOfOrder) {
  MalformedCases cases;
  AddFramingCases(cases);
  Run(cases, 60);
}

}  // namespace
}  // namespace embps
