// What a table is, where it lies, and which features feed it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace embps {
inline namespace sdk {

enum class DataType { kFp32, kFp16, kBf16 };
enum class IdType { kInt64, kInt32 };
// kNone: a sequence, the rows themselves.
enum class Pooling { kSum, kMean, kNone };
// kAuto: the planner chooses.
enum class ShardingType { kAuto, kTableWise, kRowWise, kColumnWise, kTableRowWise, kDataParallel };
enum class OptimizerType {
  kSgd,
  kAdagrad,
  kRowwiseAdagrad,
  kAdam,
  kPartialRowwiseAdam,
  kLamb,
  kPartialRowwiseLamb,
  kLarsSgd
};
// Of kRowwiseAdagrad; the others have one way each.
enum class WeightDecayMode { kNone, kL2, kDecoupled };
// kDefault: uniform in [-sqrt(1/R), +sqrt(1/R)].
enum class InitializerKind { kDefault, kUniform, kNormal, kConstant };

// Names as embpsctl and configs spell them: "FP32", "SUM", "ROW_WISE", "ADAGRAD", ...
absl::string_view Name(DataType value);
absl::string_view Name(IdType value);
absl::string_view Name(Pooling value);
absl::string_view Name(ShardingType value);
absl::string_view Name(OptimizerType value);
absl::string_view Name(WeightDecayMode value);
absl::string_view Name(InitializerKind value);
// Inverse of Name, any case; false when the name is unknown.
bool ParseName(absl::string_view name, DataType* value);
bool ParseName(absl::string_view name, IdType* value);
bool ParseName(absl::string_view name, Pooling* value);
bool ParseName(absl::string_view name, ShardingType* value);
bool ParseName(absl::string_view name, OptimizerType* value);
bool ParseName(absl::string_view name, WeightDecayMode* value);
bool ParseName(absl::string_view name, InitializerKind* value);

struct OptimizerSpec {
  OptimizerType type = OptimizerType::kSgd;
  float learning_rate = 0.01f;  // >= 0
  float eps = 1e-8f;            // > 0, outside the square root
  float beta1 = 0.9f;           // [0, 1)
  float beta2 = 0.999f;         // [0, 1)
  float eta = 0.001f;           // > 0, LARS
  float momentum = 0.9f;        // [0, 1), LARS
  float weight_decay = 0.0f;    // >= 0
  WeightDecayMode weight_decay_mode = WeightDecayMode::kNone;
  float max_gradient = 0.0f;  // clamps gradient elements to +-max_gradient; 0 = off
  float max_norm = 0.0f;      // rescales longer rows after the update; 0 = off
};

// Initial rows are a pure function of (seed, table name, row, column).
struct Initializer {
  InitializerKind kind = InitializerKind::kDefault;
  float a = 0.0f;     // lower bound, standard deviation, or the constant
  float b = 0.0f;     // upper bound of kUniform
  uint64_t seed = 0;  // also of the stochastic rounding
};

struct TableSpec {
  std::string name{};     // 1 to 128 bytes
  int64_t row_count = 0;  // R, 1 to 2^47
  int32_t dim = 0;        // D, 1 to 4096 elements
  DataType row_type = DataType::kFp32;
  IdType id_type = IdType::kInt64;  // on the wire; the caller's arrays may be of either width
  OptimizerSpec optimizer{};
  Initializer initializer{};
  bool nearest_rounding = false;  // kFp16, kBf16 rows: round updates to nearest, not stochastically
};

// How to cut one table. With kAuto the planner decides; -1 and 0 leave a choice to it.
struct Sharding {
  ShardingType type = ShardingType::kAuto;
  int node = -1;          // kTableWise, kTableRowWise, kDataParallel: on this node; kColumnWise: all slices there
  int rank = -1;          // kTableWise, with `node`: on this rank of it
  int column_slices = 0;  // kColumnWise: so many slices
};

// One table with the features that feed it, as one entry of a TorchRec embedding collection.
struct TableConfig {
  TableSpec spec{};                     // OpenTables reads only spec.name
  std::vector<std::string> features{};  // empty = one feature named as the table
  Pooling pooling = Pooling::kSum;
  Sharding sharding{};
  double expected_ids_per_batch = 0;  // of all its features, what the planner balances; 0 = not known
};

// One piece on one rank: rows [row_begin, row_end) x columns [column_begin, column_end).
struct Shard {
  int node = 0;
  int rank = 0;
  int64_t row_begin = 0, row_end = 0;
  int32_t column_begin = 0, column_end = 0;
};

// A table as stored in the cluster.
struct TableInfo {
  std::string table_namespace{};
  TableSpec spec{};
  uint64_t table_uid = 0;  // unique per creation
  uint64_t placement_version = 0;
  ShardingType sharding_type = ShardingType::kTableWise;
  std::vector<Shard> shards{};
  float learning_rate = 0;  // in force on the answering node
  int64_t step = 0;         // t: applied pushes that named the table
};

// Rows as fp32, N of them in the order asked for.
struct TableRows {
  std::vector<int64_t> ids{};   // [N]
  std::vector<float> values{};  // [N, D]
  int32_t state0_width = 0;     // 0 = the optimizer has none, or it was not asked for; D, or one per column slice
  int32_t state1_width = 0;
  std::vector<float> state0{};  // [N, state0_width]
  std::vector<float> state1{};  // [N, state1_width]
  int64_t step = 0;             // the largest of the answering nodes
};

struct RankUse {
  int node = 0;
  int rank = 0;
  int64_t table_bytes = 0;
  int64_t state_bytes = 0;
  int64_t shard_count = 0;
};

// The stored plan, or one that CreateTables would store.
struct PlanReport {
  std::vector<TableInfo> tables{};
  std::vector<RankUse> ranks{};
  std::vector<std::string> warnings{};
  std::string explanation{};  // why each table went where; empty for the stored plan
};

}  // namespace sdk
}  // namespace embps
