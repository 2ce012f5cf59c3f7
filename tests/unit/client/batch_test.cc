// Names, order and shapes of what a Lookup returns, and what is refused.
#include <limits>

#include "embps/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/float16.h"
#include "tests/unit/client/fake_cluster.h"

namespace embps::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sets every element of a table to `value`.
void Fill(ClientImpl& client, const std::string& table, int64_t rows, int32_t dim, float value) {
  TableRows all;
  for (int64_t r = 0; r < rows; ++r) all.ids.push_back(r);
  all.values.assign(static_cast<size_t>(rows * dim), value);
  ASSERT_TRUE(client.WriteRows(table, all).ok());
}

TEST(BatchTest, N16_AFeatureThatFeedsTwoTablesHasTwoNamedOutputs) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t1", 100, 64, {"f"}), MakeTable("t2", 1000, 128, {"f", "g"})}).ok());
  Fill(*client, "t1", 100, 64, 1.0f);
  Fill(*client, "t2", 1000, 128, 2.0f);
  KeyedJaggedTensor kjt{.keys = {"g", "f"}, .lengths = {1, 0, 1, 2}, .values = {3, 4, 5, 6}};
  const auto result = Lookup(*client, kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->pooled.names, ElementsAre("f@t1", "f@t2", "g"));
  EXPECT_THAT(result->pooled.dims, ElementsAre(64, 128, 128));
  EXPECT_EQ(result->pooled.row(0, 1)[63], 2.0f);  // two ids of t1
  EXPECT_EQ(result->pooled.row(1, 1)[0], 4.0f);   // two ids of t2
  EXPECT_EQ(result->pooled.row(2, 0)[127], 2.0f);
  EXPECT_EQ(result->pooled.row(2, 1)[0], 0.0f);
}

TEST(BatchTest, N17_ColumnsAreInConfigOrderForMixedTypesPoolingsAndNodes) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  std::vector<TableConfig> configs = {MakeTable("c", 10, 3, {"f0"}, Pooling::kMean, ShardingType::kTableWise, 1),
                                      MakeTable("a", 10, 1, {"f1"}, Pooling::kSum, ShardingType::kRowWise),
                                      MakeTable("d", 10, 8, {"f2"}, Pooling::kSum, ShardingType::kColumnWise),
                                      MakeTable("b", 10, 2, {"f3"}, Pooling::kMean, ShardingType::kTableWise, 0)};
  configs[2].spec.row_type = DataType::kFp16;
  ASSERT_TRUE(client->CreateTables(configs).ok());
  float value = 10.0f;
  for (const TableConfig& config : configs) Fill(*client, config.spec.name, 10, config.spec.dim, value++);
  KeyedJaggedTensor kjt{.keys = {"f3", "f2", "f1", "f0"}, .lengths = {1, 1, 1, 1}, .values = {1, 2, 3, 4}};
  const auto result = Lookup(*client, kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->pooled.names, ElementsAre("f0", "f1", "f2", "f3"));
  EXPECT_THAT(result->pooled.values(), ElementsAre(10, 10, 10, 11, 12, 12, 12, 12, 12, 12, 12, 12, 13, 13));
}

TEST(BatchTest, N6_InverseIndicesExpandEveryKey) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t1", 10, 1, {"f1"}), MakeTable("t2", 10, 1, {"f2"})}).ok());
  KeyedJaggedTensor kjt{.keys = {"f1", "f2"}, .lengths = {1, 1, 0, 1}, .values = {1, 2, 3}};
  kjt.stride_per_key = {1, 3};
  kjt.inverse_indices = {{0, 0, 0}, {0, 1, 2}};
  const auto result = Lookup(*client, kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->pooled.variable_batch);
  EXPECT_THAT(result->pooled.rows, ElementsAre(3, 3));
  const float a = InitialValue(1, 0), b = InitialValue(2, 0), c = InitialValue(3, 0);
  EXPECT_THAT(result->pooled.values(), ElementsAre(a, b, a, 0, a, c));
}

TEST(BatchTest, N6_InverseIndicesExpandSequences) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t", 10, 1, {"f"}, Pooling::kNone, ShardingType::kRowWise)}).ok());
  KeyedJaggedTensor kjt{.keys = {"f"}, .lengths = {2, 1}, .values = {9, 1, 9}};
  kjt.inverse_indices = {{1, 0, 0}};
  const auto result = Lookup(*client, kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->sequences.size(), 1u);
  EXPECT_THAT(result->sequences[0].lengths, ElementsAre(1, 2, 2));
  const float a = InitialValue(9, 0), b = InitialValue(1, 0);
  EXPECT_THAT(result->sequences[0].values(), ElementsAre(a, a, b, a, b));
}

TEST(BatchTest, AVariableBatchHasABlockPerKeyInTheCallersOrder) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t1", 10, 1, {"f1"}), MakeTable("t2", 10, 2, {"f2"})}).ok());
  KeyedJaggedTensor kjt{.keys = {"f2", "f1"}, .lengths = {1, 1, 0, 1}, .values = {1, 2, 3}};
  kjt.stride_per_key = {1, 3};
  const auto result = Lookup(*client, kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->pooled.variable_batch);
  EXPECT_THAT(result->pooled.names, ElementsAre("f2", "f1"));
  EXPECT_THAT(result->pooled.rows, ElementsAre(1, 3));
  EXPECT_THAT(result->pooled.values(),
              ElementsAre(InitialValue(1, 0), InitialValue(1, 1), InitialValue(2, 0), 0, InitialValue(3, 0)));
}

TEST(BatchTest, N1_MeanOverNodesDividesByTheWholeBag) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t", 10, 1, {"f"}, Pooling::kMean, ShardingType::kRowWise)}).ok());
  Fill(*client, "t", 10, 1, 2.0f);
  const auto result = Lookup(*client, KeyedJaggedTensor{.keys = {"f"}, .lengths = {2}, .values = {0, 9}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->pooled.values(), ElementsAre(2.0f));
}

TEST(BatchTest, N4_EmptyBatchesAreValid) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client
                  ->CreateTables({MakeTable("t", 10, 4, {"f"}, Pooling::kSum, ShardingType::kRowWise),
                                  MakeTable("s", 10, 4, {"g"}, Pooling::kNone)})
                  .ok());
  const auto none = Lookup(*client, KeyedJaggedTensor{});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->pooled.names.empty());
  const auto empty = Lookup(*client, KeyedJaggedTensor{.keys = {"f", "g"}});
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->pooled.element_count, 0);
  EXPECT_EQ(empty->sequences[0].row_count, 0);
  EXPECT_TRUE(PushGrad(*client, KeyedJaggedTensor{.keys = {"f", "g"}}, Gradients::Of({}, {{}})).ok());
}

TEST(BatchTest, UnknownFeaturesAreRefusedByName) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t", 10, 4, {"f"})}).ok());
  const auto result = Lookup(*client, KeyedJaggedTensor{.keys = {"f", "what"}, .lengths = {1, 0}, .values = {1}});
  EXPECT_EQ(ErrorReason(result.status()), "BAD_JAGGED_LAYOUT");
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("\"what\""));
}

TEST(BatchTest, WeightsWithMeanOrNoneAreRefused) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(
      client->CreateTables({MakeTable("m", 10, 1, {"m"}, Pooling::kMean), MakeTable("n", 10, 1, {"n"}, Pooling::kNone)})
          .ok());
  for (const char* key : {"m", "n"}) {
    KeyedJaggedTensor kjt{.keys = {key}, .lengths = {1}, .values = {1}};
    kjt.weighted = true;
    kjt.weights = {1.0f};
    EXPECT_EQ(ErrorReason(Lookup(*client, kjt).status()), "BAD_JAGGED_LAYOUT");
  }
}

TEST(BatchTest, U9_BadIdsNameTableFeatureAndPositionInTheCallersArrays) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client
                  ->CreateTables({MakeTable("t", 10, 1, {"f"}, Pooling::kSum, ShardingType::kRowWise),
                                  MakeTable("u", 20, 1, {"g"})})
                  .ok());
  const auto result =
      Lookup(*client, KeyedJaggedTensor{.keys = {"g", "f"}, .lengths = {2, 3}, .values = {19, 0, 3, 10, -7}});
  const absl::Status& status = result.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ErrorReason(status), "ID_OUT_OF_RANGE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("default/t"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"f\""));
  EXPECT_EQ(ErrorDetail(status, "position"), "3");
  EXPECT_EQ(ErrorDetail(status, "count"), "2");
  EXPECT_EQ(cluster.With(0, [](FakeServer& s) { return s.lookup_headers.size(); }), 0u);
}

TEST(BatchTest, S10_ExtremeIdsAreRefusedExactlyOnAnyNumberOfNodes) {
  for (int nodes : {1, 2, 3, 7}) {
    FakeCluster cluster(std::vector<int>(static_cast<size_t>(nodes), 1));
    const auto client = cluster.ConnectOrDie();
    ASSERT_TRUE(client->CreateTables({MakeTable("t", 1000, 1, {"f"}, Pooling::kSum, ShardingType::kRowWise)}).ok());
    for (int64_t bad : {int64_t{-1}, int64_t{-2}, std::numeric_limits<int64_t>::min(),
                        std::numeric_limits<int64_t>::max(), int64_t{1000}}) {
      const auto refused = Lookup(*client, KeyedJaggedTensor{.keys = {"f"}, .lengths = {3}, .values = {0, 999, bad}});
      EXPECT_EQ(ErrorReason(refused.status()), "ID_OUT_OF_RANGE");
      EXPECT_EQ(ErrorDetail(refused.status(), "position"), "2");
      EXPECT_EQ(ErrorDetail(refused.status(), "first_bad_id"), absl::StrCat(bad));
    }
    const auto good = Lookup(*client, KeyedJaggedTensor{.keys = {"f"}, .lengths = {1, 1}, .values = {0, 999}});
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_THAT(good->pooled.values(), ElementsAre(InitialValue(0, 0), InitialValue(999, 0)));
  }
}

TEST(BatchTest, F23_DropIsAskedForAndCounts) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(
      client
          ->CreateTables({MakeTable("m", 10, 1, {"m"}, Pooling::kMean, ShardingType::kRowWise),
                          MakeTable("w", 10, 1, {"w"}, Pooling::kSum), MakeTable("s", 10, 1, {"s"}, Pooling::kNone)})
          .ok());
  LookupOptions options;
  options.out_of_range_policy = OutOfRangePolicy::kDrop;
  const auto result = Lookup(
      *client, KeyedJaggedTensor{.keys = {"m", "w", "s"}, .lengths = {3, 2, 3}, .values = {1, 10, 9, -1, -5, 4, -1, 4}},
      options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->dropped_ids, 2u);
  EXPECT_EQ(result->pruned_ids, 2u);
  EXPECT_THAT(result->pooled.values(), ElementsAre((InitialValue(1, 0) + InitialValue(9, 0)) / 2, 0.0f));
  EXPECT_THAT(result->sequences[0].values(), ElementsAre(InitialValue(4, 0), 0.0f, InitialValue(4, 0)));
}

TEST(BatchTest, HalfOutputsAreConvertedLast) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client
                  ->CreateTables({MakeTable("r", 10, 1, {"r"}, Pooling::kSum, ShardingType::kRowWise),
                                  MakeTable("t", 10, 1, {"t"})})
                  .ok());
  // 2048 + 1 needs more bits than fp16 has: rounding the parts first would lose the ones.
  TableRows rows;
  rows.ids = {0, 9, 8};
  rows.values = {2048, 1, 1};
  ASSERT_TRUE(client->WriteRows("r", rows).ok());
  LookupOptions options;
  options.output_dtype = DataType::kFp16;
  const auto result =
      Lookup(*client, KeyedJaggedTensor{.keys = {"r", "t"}, .lengths = {3, 1}, .values = {0, 9, 8, 5}}, options);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto* bits = reinterpret_cast<const uint16_t*>(result->pooled.data.get());
  EXPECT_EQ(HalfToFloat(bits[0]), 2050.0f);
  EXPECT_EQ(HalfToFloat(bits[1]), InitialValue(5, 0));
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(cluster.With(node, [](FakeServer& s) { return s.lookup_headers.at(0).output_dtype(); }),
              v1::DATA_TYPE_FP32);
  }
}

TEST(BatchTest, TheCallersMemoryIsFilledAndNothingBesideIt) {
  FakeCluster cluster({1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t", 10, 2, {"f"})}).ok());
  const KeyedJaggedTensor kjt{.keys = {"f"}, .lengths = {1, 1}, .values = {3, 4}};
  std::vector<float> memory(6, -77.0f);
  LookupOptions options;
  options.pooled_output = {reinterpret_cast<char*>(memory.data() + 1), 4 * sizeof(float)};
  ASSERT_TRUE(Lookup(*client, kjt, options).ok());
  EXPECT_THAT(memory,
              ElementsAre(-77, InitialValue(3, 0), InitialValue(3, 1), InitialValue(4, 0), InitialValue(4, 1), -77));
  options.pooled_output = {reinterpret_cast<char*>(memory.data()), 20};
  EXPECT_EQ(Lookup(*client, kjt, options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BatchTest, S17_LargeLookupsAndPushesStreamByThemselves) {
  FakeCluster cluster({1, 1});
  const auto client = cluster.ConnectOrDie();
  ASSERT_TRUE(client->CreateTables({MakeTable("t", 100, 256, {"f"}, Pooling::kSum, ShardingType::kRowWise)}).ok());
  KeyedJaggedTensor kjt{.keys = {"f"}};
  for (int i = 0; i < 3000; ++i) kjt.lengths.push_back(1), kjt.values.push_back(i % 100);
  const auto result = Lookup(*client, kjt);
  ASSERT_TRUE(result.ok()) << result.status();
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(result->pooled.row(0, i)[255], InitialValue(i % 100, 255));
  std::vector<float> grads(3000 * 256, 1.0f);
  ASSERT_TRUE(PushGrad(*client, kjt, Gradients::Pooled(grads)).ok());
  EXPECT_EQ(client->ReadRows("t", {7}, false)->values[0], InitialValue(7, 0) - 30);
  cluster.With(0, [](FakeServer& s) {
    EXPECT_EQ(s.calls["/embps.v1.EmbeddingService/LookupStream"], 1);
    EXPECT_EQ(s.calls["/embps.v1.EmbeddingService/Lookup"], 0);
    return 0;
  });
}

}  // namespace
}  // namespace embps::client
