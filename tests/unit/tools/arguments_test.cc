#include "client/cpp/tools/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace embps::tools {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Arguments Parsed(std::vector<std::string> words) {
  const ParseOutcome outcome = ParseArguments(std::move(words));
  EXPECT_TRUE(outcome.arguments.has_value()) << outcome.text;
  return outcome.arguments.value_or(Arguments{});
}

std::string Refusal(std::vector<std::string> words) {
  const ParseOutcome outcome = ParseArguments(std::move(words));
  EXPECT_FALSE(outcome.arguments.has_value());
  EXPECT_EQ(outcome.exit_code, ExitCode::kUsage) << outcome.text;
  return outcome.text;
}

TEST(ArgumentsTest, EveryCommandIsFound) {
  EXPECT_EQ(Parsed({"health"}).command, Command::kHealth);
  EXPECT_EQ(Parsed({"info"}).command, Command::kInfo);
  EXPECT_EQ(Parsed({"table", "list"}).command, Command::kTableList);
  EXPECT_EQ(Parsed({"table", "get", "t"}).command, Command::kTableGet);
  EXPECT_EQ(Parsed({"table", "create", "t", "--rows", "1", "--dim", "1"}).command, Command::kTableCreate);
  EXPECT_EQ(Parsed({"table", "drop", "t"}).command, Command::kTableDrop);
  EXPECT_EQ(Parsed({"plan"}).command, Command::kPlan);
  EXPECT_EQ(Parsed({"lookup", "t"}).command, Command::kLookup);
  EXPECT_EQ(Parsed({"push", "t", "--grad_value", "1"}).command, Command::kPush);
  EXPECT_EQ(Parsed({"stats"}).command, Command::kStats);
  EXPECT_EQ(Parsed({"top"}).command, Command::kTop);
  EXPECT_EQ(Parsed({"bench"}).command, Command::kBench);
}

TEST(ArgumentsTest, GlobalOptionsMayStandBeforeOrAfterTheCommand) {
  for (const auto& words : {std::vector<std::string>{"--nodes", "a:1,b:2", "-o", "json", "--namespace", "n", "health"},
                            std::vector<std::string>{"health", "--nodes=a:1,b:2", "--output=json", "--namespace=n"}}) {
    const GlobalArguments globals = Parsed(words).globals;
    EXPECT_THAT(globals.nodes, ElementsAre("a:1", "b:2"));
    EXPECT_EQ(globals.format, Format::kJson);
    EXPECT_EQ(globals.table_namespace, "n");
  }
  const GlobalArguments globals =
      Parsed({"table", "list", "-n", "a:1", "--timeout_ms", "7", "--cluster_id", "c"}).globals;
  EXPECT_THAT(globals.nodes, ElementsAre("a:1"));
  EXPECT_EQ(globals.timeout_ms, 7);
  EXPECT_EQ(globals.cluster_id, "c");
  EXPECT_EQ(globals.format, Format::kTable);
}

TEST(ArgumentsTest, NodesComeFromTheEnvironmentUnlessGiven) {
  setenv("EMBPS_NODES", "x:1,y:2", 1);
  EXPECT_THAT(Parsed({"health"}).globals.nodes, ElementsAre("x:1", "y:2"));
  EXPECT_THAT(Parsed({"health", "--nodes", "z:3"}).globals.nodes, ElementsAre("z:3"));
  unsetenv("EMBPS_NODES");
  EXPECT_THAT(Parsed({"health"}).globals.nodes, ElementsAre("127.0.0.1:7737"));
}

TEST(ArgumentsTest, WrongLinesAreUsageErrors) {
  EXPECT_THAT(Refusal({}), HasSubstr("a command is required"));
  EXPECT_THAT(Refusal({"frobnicate"}), HasSubstr("frobnicate"));
  EXPECT_THAT(Refusal({"health", "--frobnicate"}), HasSubstr("--frobnicate"));
  EXPECT_THAT(Refusal({"-o", "xml", "health"}), HasSubstr("xml"));
  EXPECT_THAT(Refusal({"--timeout_ms", "0", "health"}), HasSubstr("--timeout_ms"));
  EXPECT_THAT(Refusal({"table"}), HasSubstr("a command is required"));
  EXPECT_THAT(Refusal({"table", "paint"}), HasSubstr("paint"));
  EXPECT_THAT(Refusal({"table", "get"}), HasSubstr("name"));
  EXPECT_THAT(Refusal({"table", "drop"}), HasSubstr("name"));
  EXPECT_THAT(Refusal({"lookup"}), HasSubstr("table"));
  EXPECT_THAT(Refusal({"lookup", "t", "--ids", "1,x"}), HasSubstr("--ids"));
  EXPECT_THAT(Refusal({"lookup", "t", "--pooling", "MAX"}), HasSubstr("unknown name 'MAX'"));
  EXPECT_THAT(Refusal({"push", "t", "--ids", "1"}), HasSubstr("--grad"));
  EXPECT_THAT(Refusal({"push", "t", "--ids", "1", "--grad", "1", "--grad_value", "1"}), HasSubstr("excludes"));
  EXPECT_THAT(Refusal({"bench", "--mode", "write"}), HasSubstr("write"));
  EXPECT_THAT(Refusal({"table", "create", "t", "--rows", "5"}), HasSubstr("--dim"));
  EXPECT_THAT(Refusal({"table", "create", "t", "--rows", "1", "--dim", "1", "--optimizer", "MAGIC"}),
              HasSubstr("unknown name 'MAGIC'"));
  EXPECT_THAT(Refusal({"table", "create", "t", "--file", "f.json"}), HasSubstr("excludes"));
}

TEST(ArgumentsTest, HelpIsNoErrorAndShowsExamples) {
  const ParseOutcome all = ParseArguments({"--help"});
  EXPECT_FALSE(all.arguments.has_value());
  EXPECT_EQ(all.exit_code, ExitCode::kOk);
  EXPECT_THAT(all.text, AllOf(HasSubstr("Examples:"), HasSubstr("Exit codes: 0 ok"), HasSubstr("bench")));
  for (const std::vector<std::string>& command : {std::vector<std::string>{"health"},
                                                  {"info"},
                                                  {"stats"},
                                                  {"top"},
                                                  {"plan"},
                                                  {"lookup"},
                                                  {"push"},
                                                  {"bench"},
                                                  {"table", "list"},
                                                  {"table", "get"},
                                                  {"table", "create"},
                                                  {"table", "drop"}}) {
    std::vector<std::string> words = command;
    words.push_back("--help");
    const ParseOutcome help = ParseArguments(words);
    EXPECT_EQ(help.exit_code, ExitCode::kOk);
    EXPECT_THAT(help.text, HasSubstr("Example:\n  embpsctl")) << command.back();
  }
}

TEST(ArgumentsTest, TableCreateTakesTheWholeSpec) {
  const TableConfig table = Parsed({"table",
                                    "create",
                                    "clicks",
                                    "--rows",
                                    "1000",
                                    "--dim",
                                    "16",
                                    "--row_type",
                                    "bf16",
                                    "--id_type",
                                    "INT32",
                                    "--sharding",
                                    "column_wise",
                                    "--column_slices",
                                    "2",
                                    "--node",
                                    "1",
                                    "--rank",
                                    "3",
                                    "--expected_ids",
                                    "50",
                                    "--initializer",
                                    "NORMAL",
                                    "--init_a",
                                    "0.5",
                                    "--seed",
                                    "9",
                                    "--nearest_rounding",
                                    "--optimizer",
                                    "LAMB",
                                    "--weight_decay_mode",
                                    "L2",
                                    "--learning_rate",
                                    "0.25",
                                    "--eps",
                                    "1e-6",
                                    "--beta1",
                                    "0.5",
                                    "--beta2",
                                    "0.75",
                                    "--eta",
                                    "2",
                                    "--momentum",
                                    "0.125",
                                    "--weight_decay",
                                    "0.5",
                                    "--max_gradient",
                                    "3",
                                    "--max_norm",
                                    "4"})
                                .create.table;
  EXPECT_EQ(table.spec.name, "clicks");
  EXPECT_EQ(table.spec.row_count, 1000);
  EXPECT_EQ(table.spec.dim, 16);
  EXPECT_EQ(table.spec.row_type, DataType::kBf16);
  EXPECT_EQ(table.spec.id_type, IdType::kInt32);
  EXPECT_TRUE(table.spec.nearest_rounding);
  EXPECT_EQ(table.sharding.type, ShardingType::kColumnWise);
  EXPECT_EQ(table.sharding.column_slices, 2);
  EXPECT_EQ(table.sharding.node, 1);
  EXPECT_EQ(table.sharding.rank, 3);
  EXPECT_EQ(table.expected_ids_per_batch, 50);
  EXPECT_EQ(table.spec.initializer.kind, InitializerKind::kNormal);
  EXPECT_EQ(table.spec.initializer.a, 0.5f);
  EXPECT_EQ(table.spec.initializer.seed, 9u);
  const OptimizerSpec& optimizer = table.spec.optimizer;
  EXPECT_EQ(optimizer.type, OptimizerType::kLamb);
  EXPECT_EQ(optimizer.weight_decay_mode, WeightDecayMode::kL2);
  EXPECT_EQ(optimizer.learning_rate, 0.25f);
  EXPECT_EQ(optimizer.eps, 1e-6f);
  EXPECT_EQ(optimizer.beta1, 0.5f);
  EXPECT_EQ(optimizer.beta2, 0.75f);
  EXPECT_EQ(optimizer.eta, 2.0f);
  EXPECT_EQ(optimizer.momentum, 0.125f);
  EXPECT_EQ(optimizer.weight_decay, 0.5f);
  EXPECT_EQ(optimizer.max_gradient, 3.0f);
  EXPECT_EQ(optimizer.max_norm, 4.0f);
}

TEST(ArgumentsTest, BatchesTakeListsAndNegativeNumbers) {
  const LookupArguments lookup =
      Parsed({"lookup", "t", "--ids", "-1,9,-9223372036854775808", "--lengths", "2,1", "--weights", "0.5,-1,2",
              "--pooling", "sum", "--drop", "--output_dtype", "FP16"})
          .lookup;
  EXPECT_EQ(lookup.batch.table, "t");
  EXPECT_THAT(lookup.batch.ids, ElementsAre(-1, 9, INT64_MIN));
  EXPECT_THAT(lookup.batch.lengths, ElementsAre(2, 1));
  EXPECT_THAT(lookup.batch.weights, ElementsAre(0.5f, -1.0f, 2.0f));
  EXPECT_EQ(lookup.batch.pooling, Pooling::kSum);
  EXPECT_TRUE(lookup.batch.drop_out_of_range);
  EXPECT_EQ(lookup.output_dtype, DataType::kFp16);

  const PushArguments push =
      Parsed({"push", "t", "--ids", "7", "--grad", "-0.5,1", "--learning_rate", "0.1", "--grad_scale", "0.25"}).push;
  EXPECT_THAT(push.gradients, ElementsAre(-0.5f, 1.0f));
  EXPECT_EQ(push.learning_rate, 0.1f);
  EXPECT_EQ(push.grad_scale, 0.25f);
  EXPECT_EQ(push.batch.pooling, Pooling::kNone);
  EXPECT_FALSE(push.gradient_value.has_value());
  // A push that names the table without ids advances its step.
  EXPECT_THAT(Parsed({"push", "t"}).push.batch.ids, IsEmpty());
}

TEST(ArgumentsTest, BenchAndTopKeepTheirDefaults) {
  const Arguments arguments = Parsed({"bench", "--mode", "both", "--skew", "3", "--seconds", "0.5"});
  EXPECT_EQ(arguments.bench.mode, BenchMode::kBoth);
  EXPECT_EQ(arguments.bench.skew, 3);
  EXPECT_EQ(arguments.bench.seconds, 0.5);
  EXPECT_EQ(arguments.bench.tables, 4);
  EXPECT_EQ(Parsed({"top", "--count", "2"}).top.interval_ms, 1000);
}

}  // namespace
}  // namespace embps::tools
