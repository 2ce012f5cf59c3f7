#include "client/cpp/tools/table_file.h"

#include <cstddef>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace embps::tools {
namespace {

using Json = nlohmann::ordered_json;
// Takes the value of one key; false when it is of the wrong kind.
using Setter = std::function<bool(const Json&)>;
using Keys = std::map<std::string, Setter>;

Setter Text(std::string* value) {
  return [value](const Json& json) {
    if (!json.is_string()) return false;
    *value = json.get<std::string>();
    return true;
  };
}

Setter Bool(bool* value) {
  return [value](const Json& json) {
    if (!json.is_boolean()) return false;
    *value = json.get<bool>();
    return true;
  };
}

template <typename Int>
Setter Integer(Int* value) {
  return [value](const Json& json) {
    if (!json.is_number_integer()) return false;
    *value = json.get<Int>();
    return json.is_number_unsigned() ? std::in_range<Int>(json.get<uint64_t>())
                                     : std::in_range<Int>(json.get<int64_t>());
  };
}

template <typename Float>
Setter Number(Float* value) {
  return [value](const Json& json) {
    if (!json.is_number()) return false;
    *value = json.get<Float>();
    return true;
  };
}

template <typename Enum>
Setter Named(Enum* value) {
  return [value](const Json& json) { return json.is_string() && ParseName(json.get<std::string>(), value); };
}

absl::Status ReadObject(const Json& json, const std::string& where, const Keys& keys) {
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(where, ": an object is expected"));
  for (const auto& [key, value] : json.items()) {
    const auto setter = keys.find(key);
    if (setter == keys.end()) return absl::InvalidArgumentError(absl::StrCat(where, ".", key, ": unknown key"));
    if (!setter->second(value)) {
      return absl::InvalidArgumentError(absl::StrCat(where, ".", key, ": bad value ", value.dump()));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadOptimizer(const Json& json, const std::string& where, OptimizerSpec& optimizer) {
  return ReadObject(json, where,
                    {{"type", Named(&optimizer.type)},
                     {"weight_decay_mode", Named(&optimizer.weight_decay_mode)},
                     {"learning_rate", Number(&optimizer.learning_rate)},
                     {"eps", Number(&optimizer.eps)},
                     {"beta1", Number(&optimizer.beta1)},
                     {"beta2", Number(&optimizer.beta2)},
                     {"eta", Number(&optimizer.eta)},
                     {"momentum", Number(&optimizer.momentum)},
                     {"weight_decay", Number(&optimizer.weight_decay)},
                     {"max_gradient", Number(&optimizer.max_gradient)},
                     {"max_norm", Number(&optimizer.max_norm)}});
}

absl::Status ReadInitializer(const Json& json, const std::string& where, Initializer& initializer) {
  return ReadObject(json, where,
                    {{"kind", Named(&initializer.kind)},
                     {"a", Number(&initializer.a)},
                     {"b", Number(&initializer.b)},
                     {"seed", Integer(&initializer.seed)}});
}

absl::StatusOr<TableConfig> ReadTable(const Json& json, const std::string& where) {
  TableConfig table;
  const auto keep = [](const Json** part) {
    return [part](const Json& value) {
      *part = &value;
      return true;
    };
  };
  const Json* optimizer = nullptr;
  const Json* initializer = nullptr;
  const auto features = [&table](const Json& value) {
    if (!value.is_array()) return false;
    for (const Json& name : value) {
      if (!name.is_string()) return false;
      table.features.push_back(name.get<std::string>());
    }
    return true;
  };
  EMBPS_RETURN_IF_ERROR(ReadObject(json, where,
                                   {{"name", Text(&table.spec.name)},
                                    {"rows", Integer(&table.spec.row_count)},
                                    {"dim", Integer(&table.spec.dim)},
                                    {"row_type", Named(&table.spec.row_type)},
                                    {"id_type", Named(&table.spec.id_type)},
                                    {"nearest_rounding", Bool(&table.spec.nearest_rounding)},
                                    {"features", features},
                                    {"pooling", Named(&table.pooling)},
                                    {"sharding", Named(&table.sharding.type)},
                                    {"node", Integer(&table.sharding.node)},
                                    {"rank", Integer(&table.sharding.rank)},
                                    {"column_slices", Integer(&table.sharding.column_slices)},
                                    {"expected_ids", Number(&table.expected_ids_per_batch)},
                                    {"optimizer", keep(&optimizer)},
                                    {"initializer", keep(&initializer)}}));
  for (const char* key : {"name", "rows", "dim"}) {
    if (!json.contains(key)) return absl::InvalidArgumentError(absl::StrCat(where, ".", key, ": missing"));
  }
  if (optimizer != nullptr) {
    EMBPS_RETURN_IF_ERROR(ReadOptimizer(*optimizer, where + ".optimizer", table.spec.optimizer));
  }
  if (initializer != nullptr) {
    EMBPS_RETURN_IF_ERROR(ReadInitializer(*initializer, where + ".initializer", table.spec.initializer));
  }
  return table;
}

}  // namespace

absl::StatusOr<std::vector<TableConfig>> ParseTables(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("no valid JSON");
  const Json* tables = nullptr;
  EMBPS_RETURN_IF_ERROR(ReadObject(json, "file", {{"tables", [&tables](const Json& value) {
                                                     tables = &value;
                                                     return value.is_array();
                                                   }}}));
  if (tables == nullptr) return absl::InvalidArgumentError("file.tables: missing");
  std::vector<TableConfig> configs;
  for (size_t i = 0; i < tables->size(); ++i) {
    EMBPS_ASSIGN_OR_RETURN(TableConfig table, ReadTable((*tables)[i], absl::StrCat("tables[", i, "]")));
    configs.push_back(std::move(table));
  }
  return configs;
}

absl::StatusOr<std::vector<TableConfig>> ReadTableFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::InvalidArgumentError(absl::StrCat("--file ", path, ": cannot be read, or is empty"));
  }
  auto tables = ParseTables(text.str());
  if (tables.ok()) return tables;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(tables.status().message())));
}

}  // namespace embps::tools
