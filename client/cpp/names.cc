// Spellings of the public enums, each beside its value once.
#include <array>

#include "absl/strings/match.h"
#include "embps/stats.h"
#include "embps/table.h"
#include "proto/base/check.h"

namespace embps {
inline namespace sdk {
namespace {

template <typename Enum>
struct Spelling {
  Enum value;
  absl::string_view name;
};

constexpr auto kDataTypes = std::to_array<Spelling<DataType>>(
    {{DataType::kFp32, "FP32"}, {DataType::kFp16, "FP16"}, {DataType::kBf16, "BF16"}});
constexpr auto kIdTypes = std::to_array<Spelling<IdType>>({{IdType::kInt64, "INT64"}, {IdType::kInt32, "INT32"}});
constexpr auto kPoolings =
    std::to_array<Spelling<Pooling>>({{Pooling::kSum, "SUM"}, {Pooling::kMean, "MEAN"}, {Pooling::kNone, "NONE"}});
constexpr auto kShardingTypes = std::to_array<Spelling<ShardingType>>({{ShardingType::kAuto, "AUTO"},
                                                                       {ShardingType::kTableWise, "TABLE_WISE"},
                                                                       {ShardingType::kRowWise, "ROW_WISE"},
                                                                       {ShardingType::kColumnWise, "COLUMN_WISE"},
                                                                       {ShardingType::kTableRowWise, "TABLE_ROW_WISE"},
                                                                       {ShardingType::kDataParallel, "DATA_PARALLEL"}});
constexpr auto kOptimizers =
    std::to_array<Spelling<OptimizerType>>({{OptimizerType::kSgd, "SGD"},
                                            {OptimizerType::kAdagrad, "ADAGRAD"},
                                            {OptimizerType::kRowwiseAdagrad, "ROWWISE_ADAGRAD"},
                                            {OptimizerType::kAdam, "ADAM"},
                                            {OptimizerType::kPartialRowwiseAdam, "PARTIAL_ROWWISE_ADAM"},
                                            {OptimizerType::kLamb, "LAMB"},
                                            {OptimizerType::kPartialRowwiseLamb, "PARTIAL_ROWWISE_LAMB"},
                                            {OptimizerType::kLarsSgd, "LARS_SGD"}});
constexpr auto kDecayModes = std::to_array<Spelling<WeightDecayMode>>(
    {{WeightDecayMode::kNone, "NONE"}, {WeightDecayMode::kL2, "L2"}, {WeightDecayMode::kDecoupled, "DECOUPLED"}});
constexpr auto kInitializers = std::to_array<Spelling<InitializerKind>>({{InitializerKind::kDefault, "DEFAULT"},
                                                                         {InitializerKind::kUniform, "UNIFORM"},
                                                                         {InitializerKind::kNormal, "NORMAL"},
                                                                         {InitializerKind::kConstant, "CONSTANT"}});
constexpr auto kHealthStates = std::to_array<Spelling<HealthState>>({{HealthState::kServing, "SERVING"},
                                                                     {HealthState::kNotServing, "NOT_SERVING"},
                                                                     {HealthState::kUnreachable, "UNREACHABLE"}});

template <typename Table, typename Enum>
absl::string_view NameIn(const Table& table, Enum value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  EMBPS_CHECK(false);
  return "";
}

template <typename Table, typename Enum>
bool ParseIn(const Table& table, absl::string_view name, Enum* value) {
  for (const auto& row : table) {
    if (!absl::EqualsIgnoreCase(row.name, name)) continue;
    *value = row.value;
    return true;
  }
  return false;
}

}  // namespace

absl::string_view Name(DataType value) { return NameIn(kDataTypes, value); }
absl::string_view Name(IdType value) { return NameIn(kIdTypes, value); }
absl::string_view Name(Pooling value) { return NameIn(kPoolings, value); }
absl::string_view Name(ShardingType value) { return NameIn(kShardingTypes, value); }
absl::string_view Name(OptimizerType value) { return NameIn(kOptimizers, value); }
absl::string_view Name(WeightDecayMode value) { return NameIn(kDecayModes, value); }
absl::string_view Name(InitializerKind value) { return NameIn(kInitializers, value); }
absl::string_view Name(HealthState value) { return NameIn(kHealthStates, value); }

bool ParseName(absl::string_view name, DataType* value) { return ParseIn(kDataTypes, name, value); }
bool ParseName(absl::string_view name, IdType* value) { return ParseIn(kIdTypes, name, value); }
bool ParseName(absl::string_view name, Pooling* value) { return ParseIn(kPoolings, name, value); }
bool ParseName(absl::string_view name, ShardingType* value) { return ParseIn(kShardingTypes, name, value); }
bool ParseName(absl::string_view name, OptimizerType* value) { return ParseIn(kOptimizers, name, value); }
bool ParseName(absl::string_view name, WeightDecayMode* value) { return ParseIn(kDecayModes, name, value); }
bool ParseName(absl::string_view name, InitializerKind* value) { return ParseIn(kInitializers, name, value); }

}  // namespace sdk
}  // namespace embps
