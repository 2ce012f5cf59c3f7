#include "client/cpp/tools/table_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace embps::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TableFileTest, ReadsEveryKey) {
  const auto tables = ParseTables(R"({"tables": [
    {"name": "a", "rows": 100, "dim": 8},
    {"name": "b", "rows": 140737488355328, "dim": 4, "row_type": "FP16", "id_type": "int64", "pooling": "MEAN",
     "sharding": "TABLE_ROW_WISE", "node": 1, "rank": 0, "column_slices": 3, "expected_ids": 12.5,
     "nearest_rounding": true, "features": ["f", "g"],
     "optimizer": {"type": "ADAM", "learning_rate": 0.5, "eps": 1e-6, "beta1": 0.25, "beta2": 0.5, "eta": 2,
                   "momentum": 0.125, "weight_decay": 1, "weight_decay_mode": "L2", "max_gradient": 3, "max_norm": 4},
     "initializer": {"kind": "UNIFORM", "a": -1, "b": 1, "seed": 18446744073709551615}}]})");
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_EQ((*tables)[0].spec.name, "a");
  EXPECT_EQ((*tables)[0].spec.optimizer.type, OptimizerType::kSgd);
  const TableConfig& table = (*tables)[1];
  EXPECT_EQ(table.spec.row_count, int64_t{1} << 47);
  EXPECT_EQ(table.spec.dim, 4);
  EXPECT_EQ(table.spec.row_type, DataType::kFp16);
  EXPECT_EQ(table.pooling, Pooling::kMean);
  EXPECT_EQ(table.sharding.type, ShardingType::kTableRowWise);
  EXPECT_EQ(table.sharding.node, 1);
  EXPECT_EQ(table.sharding.rank, 0);
  EXPECT_EQ(table.sharding.column_slices, 3);
  EXPECT_EQ(table.expected_ids_per_batch, 12.5);
  EXPECT_TRUE(table.spec.nearest_rounding);
  EXPECT_THAT(table.features, ElementsAre("f", "g"));
  EXPECT_EQ(table.spec.optimizer.type, OptimizerType::kAdam);
  EXPECT_EQ(table.spec.optimizer.learning_rate, 0.5f);
  EXPECT_EQ(table.spec.optimizer.weight_decay_mode, WeightDecayMode::kL2);
  EXPECT_EQ(table.spec.optimizer.max_norm, 4.0f);
  EXPECT_EQ(table.spec.initializer.kind, InitializerKind::kUniform);
  EXPECT_EQ(table.spec.initializer.a, -1.0f);
  EXPECT_EQ(table.spec.initializer.seed, UINT64_MAX);
}

TEST(TableFileTest, FaultsNameTableAndKey) {
  const auto refusal = [](const std::string& text) {
    const auto tables = ParseTables(text);
    EXPECT_EQ(tables.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(tables.status().message());
  };
  const auto with = [&](const std::string& extra) {
    return refusal(R"({"tables": [{"name": "a", "rows": 1, "dim": 1, )" + extra + "}]}");
  };
  EXPECT_THAT(refusal("{"), HasSubstr("no valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("file: an object is expected"));
  EXPECT_THAT(refusal("{}"), HasSubstr("file.tables: missing"));
  EXPECT_THAT(refusal(R"({"tables": 3})"), HasSubstr("file.tables: bad value 3"));
  EXPECT_THAT(refusal(R"({"tables": [], "more": 1})"), HasSubstr("file.more: unknown key"));
  EXPECT_THAT(refusal(R"({"tables": [{"name": "a", "rows": 1}]})"), HasSubstr("tables[0].dim: missing"));
  EXPECT_THAT(with(R"("colour": 1)"), HasSubstr("tables[0].colour: unknown key"));
  EXPECT_THAT(with(R"("node": 1.5)"), HasSubstr("tables[0].node: bad value 1.5"));
  EXPECT_THAT(with(R"("node": 4294967297)"), HasSubstr("tables[0].node: bad value"));
  EXPECT_THAT(with(R"("sharding": "DIAGONAL")"), HasSubstr("tables[0].sharding: bad value \"DIAGONAL\""));
  EXPECT_THAT(with(R"("features": [1])"), HasSubstr("tables[0].features"));
  EXPECT_THAT(with(R"("optimizer": {"lr": 1})"), HasSubstr("tables[0].optimizer.lr: unknown key"));
  EXPECT_THAT(with(R"("optimizer": 5)"), HasSubstr("tables[0].optimizer: an object is expected"));
  EXPECT_THAT(with(R"("initializer": {"seed": -1})"), HasSubstr("tables[0].initializer.seed: bad value -1"));
}

TEST(TableFileTest, FilesThatCannotBeReadAreUsageErrors) {
  EXPECT_EQ(ReadTableFile("/nowhere/tables.json").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string path = testing::TempDir() + "/embpsctl_tables.json";
  std::ofstream(path) << R"({"tables": [{"name": "a", "rows": 10, "dim": 2}]})";
  const auto tables = ReadTableFile(path);
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->front().spec.row_count, 10);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace embps::tools
