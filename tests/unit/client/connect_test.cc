#include <algorithm>

#include "embps/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/fake_cluster.h"

namespace embps::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ConnectTest, NodesAreFoundInAnyOrder) {
  FakeCluster cluster({1, 2, 1});
  ClientOptions options = cluster.Options();
  std::reverse(options.nodes.begin(), options.nodes.end());
  const auto client = cluster.ConnectOrDie(options);
  for (int node = 0; node < 3; ++node) {
    EXPECT_EQ(client->cluster().node(node).identity().info.endpoint, absl::StrCat("node", node));
  }
  EXPECT_THAT(client->cluster().catalog()->cluster().ranks_per_node, ElementsAre(1, 2, 1));
}

TEST(ConnectTest, AMissingNodeIsWrongCluster) {
  FakeCluster cluster({1, 1});
  ClientOptions options = cluster.Options();
  options.nodes.pop_back();
  const auto client = cluster.Connect(options);
  EXPECT_EQ(ErrorReason(client.status()), "WRONG_CLUSTER");
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("node 1 of 2"));
}

TEST(ConnectTest, AnotherClusterIdIsWrongCluster) {
  FakeCluster cluster({1});
  ClientOptions options = cluster.Options();
  options.cluster_id = "other";
  EXPECT_EQ(ErrorReason(cluster.Connect(options).status()), "WRONG_CLUSTER");
}

TEST(ConnectTest, ServersThatComeUpLateAreWaitedFor) {
  FakeCluster cluster({1, 1});
  int refused = 0;
  cluster.SetFaults([&](int node, const std::string&) -> Fault {
    if (node == 1 && refused < 3) {
      ++refused;
      return {.refuse = absl::UnavailableError("connection refused")};
    }
    return {};
  });
  EXPECT_TRUE(cluster.Connect(cluster.Options()).ok());
  EXPECT_EQ(refused, 3);
}

TEST(ConnectTest, ADeadNodeIsUnavailableAndNamed) {
  FakeCluster cluster({1, 1});
  cluster.SetFaults([](int node, const std::string&) -> Fault {
    if (node == 1) return {.refuse = absl::UnavailableError("connection refused")};
    return {};
  });
  const auto client = cluster.Connect(cluster.Options());
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("node1"));
}

TEST(TablesTest, EveryNodeStoresEveryTableUnderTheUidOfNodeZero) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  const auto infos = client->CreateTables({MakeTable("a", 10, 4, {"fa"}, Pooling::kSum, ShardingType::kTableWise, 1),
                                           MakeTable("b", 10, 4, {"fb"}, Pooling::kSum, ShardingType::kRowWise)});
  ASSERT_TRUE(infos.ok()) << infos.status();
  for (int node = 0; node < 2; ++node) {
    for (size_t i = 0; i < 2; ++i) {
      const uint64_t uid =
          cluster.With(node, [&](FakeServer& s) { return s.Find(i == 0 ? "a" : "b")->stored.table_uid(); });
      EXPECT_EQ(uid, (*infos)[i].table_uid);
    }
  }
  EXPECT_EQ((*infos)[0].shards.size(), 1u);
  EXPECT_EQ((*infos)[0].shards[0].node, 1);
  EXPECT_EQ((*infos)[1].sharding_type, ShardingType::kRowWise);
}

TEST(TablesTest, CreatingAgainKeepsTheStoredPlacementAndCompletesNodesThatLackIt) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  const auto first = client->CreateTables({MakeTable("a", 10, 4, {"fa"}, Pooling::kSum, ShardingType::kTableWise, 1)});
  ASSERT_TRUE(first.ok()) << first.status();
  cluster.With(1, [](FakeServer& s) {
    v1::DeleteTableRequest request;
    request.set_name("a");
    return s.Handle("/embps.v1.TableService/DeleteTable", {request.SerializeAsString()}).ok();
  });
  const auto other = cluster.ConnectOrDie();
  const auto second = other->CreateTables({MakeTable("a", 10, 4, {"fa"}, Pooling::kSum, ShardingType::kTableWise, 0)});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)[0].table_uid, (*first)[0].table_uid);
  EXPECT_EQ((*second)[0].shards[0].node, 1);
  EXPECT_NE(cluster.With(1, [](FakeServer& s) { return s.Find("a"); }), nullptr);
}

TEST(TablesTest, AnotherSpecIsRefused) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("a", 10, 4, {"fa"})}).ok());
  EXPECT_EQ(ErrorReason(client->CreateTables({MakeTable("a", 11, 4, {"fa"})}).status()), "TABLE_SPEC_MISMATCH");
}

TEST(TablesTest, OpenDropAndList) {
  FakeCluster cluster({1, 1});
  const auto writer = cluster.ConnectOrDie();
  ASSERT_TRUE(writer->CreateTables({MakeTable("a", 10, 4, {"fa"})}).ok());
  const auto reader = cluster.ConnectOrDie();
  EXPECT_EQ(ErrorReason(reader->OpenTables({MakeTable("none", 0, 0, {})}).status()), "TABLE_NOT_FOUND");
  const auto opened = reader->OpenTables({MakeTable("a", 0, 0, {"x"})});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)[0].spec.row_count, 10);
  EXPECT_EQ(reader->ListTables()->size(), 1u);
  EXPECT_TRUE(*reader->DropTable("a"));
  EXPECT_FALSE(*reader->DropTable("a"));
  EXPECT_EQ(reader->ListTables()->size(), 0u);
  EXPECT_EQ(cluster.With(1, [](FakeServer& s) { return s.Find("a"); }), nullptr);
}

TEST(TablesTest, PlanTablesExplainsAndChangesNothing) {
  FakeCluster cluster({2, 2});
  const auto client = cluster.ConnectOrDie();
  const auto report = client->PlanTables({MakeTable("a", 1000, 8, {"f"}, Pooling::kSum, ShardingType::kAuto)});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->tables.size(), 1u);
  EXPECT_EQ(report->ranks.size(), 4u);
  EXPECT_THAT(report->explanation, HasSubstr("a"));
  EXPECT_EQ(client->ListTables()->size(), 0u);
}

TEST(RowsTest, RowsAreWrittenAndReadOverNodesAndColumnSlices) {
  for (ShardingType type : {ShardingType::kTableWise, ShardingType::kRowWise, ShardingType::kColumnWise}) {
    FakeCluster cluster({1, 2});
    const auto client = cluster.ConnectOrDie();
    ASSERT_TRUE(client->CreateTables({MakeTable("t", 10, 12, {"f"}, Pooling::kSum, type)}).ok());
    TableRows rows;
    rows.ids = {9, 0, 4};
    for (int i = 0; i < 36; ++i) rows.values.push_back(static_cast<float>(1000 + i));
    ASSERT_TRUE(client->WriteRows("t", rows).ok());
    const auto read = client->ReadRows("t", {4, 5, 9, 4}, false);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->values.size(), 48u);
    for (int64_t c = 0; c < 12; ++c) {
      EXPECT_EQ(read->values[static_cast<size_t>(c)], static_cast<float>(1024 + c));
      EXPECT_EQ(read->values[static_cast<size_t>(12 + c)], InitialValue(5, c));
      EXPECT_EQ(read->values[static_cast<size_t>(24 + c)], static_cast<float>(1000 + c));
      EXPECT_EQ(read->values[static_cast<size_t>(36 + c)], static_cast<float>(1024 + c));
    }
  }
}

TEST(RowsTest, N9_IdEqualToRowsIsRefusedAndNamed) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t", 10, 4, {"f"})}).ok());
  const absl::Status status = client->ReadRows("t", {0, 9, 10}, false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ErrorReason(status), "ID_OUT_OF_RANGE");
}

TEST(RowsTest, WritesAreCheckedBeforeTheyAreSent) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t", 10, 2, {"f"})}).ok());
  TableRows rows;
  rows.ids = {1, 1};
  rows.values = {1, 2, 3, 4};
  EXPECT_EQ(ErrorReason(client->WriteRows("t", rows)), "BAD_JAGGED_LAYOUT");
  rows.ids = {1, 2};
  rows.values.pop_back();
  EXPECT_EQ(ErrorReason(client->WriteRows("t", rows)), "DIM_MISMATCH");
  EXPECT_EQ(cluster.With(0, [](FakeServer& s) { return s.calls["/embps.v1.TableService/WriteRows"]; }), 0);
}

}  // namespace
}  // namespace embps::client
