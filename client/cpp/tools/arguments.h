// The command line of embpsctl as data.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/tools/exit_code.h"
#include "embps/options.h"
#include "embps/table.h"

namespace embps::tools {

enum class Command {
  kHealth,
  kInfo,
  kTableList,
  kTableGet,
  kTableCreate,
  kTableDrop,
  kPlan,
  kLookup,
  kPush,
  kStats,
  kTop,
  kBench
};

enum class Format { kTable, kJson };

struct GlobalArguments {
  std::vector<std::string> nodes = {"127.0.0.1:7737"};  // every node of the cluster, in any order
  std::string cluster_id;                               // empty = any
  std::string table_namespace = "default";
  int timeout_ms = 5000;  // of each call, connecting included
  Format format = Format::kTable;
};

struct HealthArguments {
  std::string service;  // of grpc.health.v1
};

// One of the two: a table spelled out by flags, or a file of tables.
struct TableCreateArguments {
  TableConfig table;
  std::string file;
};

struct TableNameArguments {
  std::string name;
  bool if_exists = false;  // drop: a missing table is fine
};

struct PlanArguments {
  std::string file;  // empty = the stored plan
  bool explain = false;
};

// The batch of one feature, as typed.
struct BatchArguments {
  std::string table;
  std::vector<int64_t> ids;
  std::vector<int64_t> lengths;  // empty = one bag of all ids
  std::vector<float> weights;
  Pooling pooling = Pooling::kNone;
  bool drop_out_of_range = false;
};

struct LookupArguments {
  BatchArguments batch;
  DataType output_dtype = DataType::kFp32;
};

struct PushArguments {
  BatchArguments batch;
  std::vector<float> gradients;         // [rows, D], row-major
  std::optional<float> gradient_value;  // instead: every element
  std::optional<float> learning_rate;
  float grad_scale = 1.0f;
};

struct TopArguments {
  int interval_ms = 1000;
  int count = 0;  // screens; 0 = until interrupted
};

enum class BenchMode { kLookup, kPush, kBoth };

struct BenchArguments {
  BenchMode mode = BenchMode::kLookup;
  int tables = 4;
  int64_t rows = 100'000;
  int32_t dim = 64;
  int64_t batch_size = 1024;
  int64_t bag_size = 10;
  double skew = 1.0;  // id = R * u^skew: 1 = uniform, larger = hotter low ids
  int threads = 2;
  double seconds = 5.0;
  uint64_t seed = 1;
  OptimizerType optimizer = OptimizerType::kRowwiseAdagrad;
  ShardingType sharding = ShardingType::kAuto;
};

struct Arguments {
  Command command = Command::kHealth;
  GlobalArguments globals;
  HealthArguments health;
  TableCreateArguments create;
  TableNameArguments table;
  PlanArguments plan;
  LookupArguments lookup;
  PushArguments push;
  TopArguments top;
  BenchArguments bench;
};

// What parsing came to: arguments to run, or a text to print and a code to exit with (help: kOk; a fault: kUsage).
struct ParseOutcome {
  std::optional<Arguments> arguments;
  ExitCode exit_code = ExitCode::kOk;
  std::string text;
};

// `words` without the program's name.
ParseOutcome ParseArguments(std::vector<std::string> words);

}  // namespace embps::tools
