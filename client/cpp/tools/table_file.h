// Tables in a JSON file, for `embpsctl table create --file` and `embpsctl plan --file`.
//
//   file      = { "tables": [ table, ... ] }
//   table     = { "name": text, "rows": int, "dim": int,            required
//                 "row_type", "id_type", "pooling", "sharding": text,  spelled as by embps::Name
//                 "nearest_rounding": bool, "features": [ text, ... ],
//                 "node", "rank", "column_slices": int, "expected_ids": number,
//                 "optimizer": optimizer, "initializer": initializer }
//   optimizer = { "type", "weight_decay_mode": text,
//                 "learning_rate", "eps", "beta1", "beta2", "eta", "momentum", "weight_decay", "max_gradient",
//                 "max_norm": number }
//   initializer = { "kind": text, "a", "b": number, "seed": int }
//
// Unknown keys are errors.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "embps/table.h"

namespace embps::tools {

// INVALID_ARGUMENT names the table's index and the key.
absl::StatusOr<std::vector<TableConfig>> ParseTables(absl::string_view json);
absl::StatusOr<std::vector<TableConfig>> ReadTableFile(const std::string& path);

}  // namespace embps::tools
