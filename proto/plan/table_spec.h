// What a legal TableSpec is, its one normal form, and what it costs in memory.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "embps/v1/types.pb.h"

namespace embps::plan {

inline constexpr int kMaxNameBytes = 128;
inline constexpr int64_t kMaxRows = int64_t{1} << 47;
inline constexpr int64_t kMaxInt32Rows = int64_t{1} << 31;  // of a table whose ids are int32
inline constexpr int32_t kMaxDim = 4096;

// "namespace/name", for error texts and logs; an empty namespace reads "default". Unambiguous: a namespace holds no
// '/'.
std::string QualifiedName(const v1::TableSpec& spec);

// A namespace or a table name for a request: `field` names it in the error. Empty is legal for a namespace only.
absl::Status ValidateNamespace(absl::string_view field, absl::string_view value);
absl::Status ValidateTableName(absl::string_view field, absl::string_view value);

// OK, or one INVALID_ARGUMENT MALFORMED that lists every fault as "field: what is wrong", separated by "; ". Takes
// specs before and after NormalizeTableSpec. Bounds are those of types.proto; control bytes in names, '/' in a
// namespace, values of enums this version does not know, and INT32 ids over more than 2^31 rows are refused as well.
absl::Status ValidateTableSpec(const v1::TableSpec& spec);

// Fills in every default of types.proto, so that two specs which mean the same are equal byte for byte when serialised.
// The default initializer becomes UNIFORM(-sqrt(1/R), +sqrt(1/R)); parameters that its kind ignores become 0.
// sharding_type stays as asked. `spec` must be valid. Idempotent.
v1::TableSpec NormalizeTableSpec(v1::TableSpec spec);

// Whether two valid specs mean the same table.
bool SpecsEqual(const v1::TableSpec& a, const v1::TableSpec& b);
// "field: stored VALUE, requested VALUE" for each differing field, separated by "; ", after normalisation; "" if equal.
std::string DescribeSpecDifference(const v1::TableSpec& stored, const v1::TableSpec& requested);

// fp32 values of optimizer state per row and shard: state0 and state1, each 0, 1 or D wide.
struct StateWidths {
  int32_t state0 = 0;
  int32_t state1 = 0;
};
StateWidths StateWidthsOf(v1::OptimizerType type, int32_t dim);

// 4 or 2; UNSPECIFIED counts as FP32.
int64_t ElementBytes(v1::DataType type);
// Width of an id on the wire, 4 or 8; UNSPECIFIED counts as INT64.
int64_t IdBytes(v1::IdType type);
// Of one row of a shard that holds `columns` of the table's columns.
int64_t RowBytes(const v1::TableSpec& spec, int32_t columns);
int64_t StateBytesPerRow(const v1::TableSpec& spec, int32_t columns);

// Whether the update of one element depends on the whole row (a mean or norm over D, or max_norm), so that cutting the
// columns changes the result: ROWWISE_ADAGRAD, PARTIAL_ROWWISE_*, LAMB, LARS_SGD, max_norm > 0.
bool HasRowNorm(const v1::OptimizerSpec& optimizer);

// The name without its prefix ("ROW_WISE", "FP16", "ADAM"), "UNSPECIFIED", or the number of an unknown value.
std::string ShortName(v1::ShardingType value);
std::string ShortName(v1::DataType value);
std::string ShortName(v1::IdType value);
std::string ShortName(v1::Pooling value);
std::string ShortName(v1::OptimizerType value);
std::string ShortName(v1::WeightDecayMode value);
std::string ShortName(v1::InitializerKind value);

}  // namespace embps::plan
