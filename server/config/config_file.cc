#include "server/config/config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/config/config_keys.h"

namespace embps {
namespace {

bool Read(const YAML::Node& node, int64_t& value) { return node.IsScalar() && absl::SimpleAtoi(node.Scalar(), &value); }

bool Read(const YAML::Node& node, std::string& value) {
  if (!node.IsScalar()) return false;
  value = node.Scalar();
  return true;
}

template <class T>
bool Read(const YAML::Node& node, std::vector<T>& values) {
  std::vector<T> read;
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) {
      if (!Read(item, read.emplace_back())) return false;
    }
  } else if (!Read(node, read.emplace_back())) {
    return false;
  }
  values = std::move(read);
  return true;
}

absl::string_view KindOf(const ConfigField& field) {
  constexpr absl::string_view kKinds[] = {"an integer", "a string", "a list of integers", "a list of strings"};
  return kKinds[field.index()];
}

// Fault of one entry, "" if there is none.
std::string ApplyEntry(const YAML::Node& key, const YAML::Node& value, std::set<std::string>& seen,
                       ServerConfig& config) {
  if (!key.IsScalar()) return "a key must be a word";
  const std::string& name = key.Scalar();
  const absl::Span<const ConfigKey> keys = ConfigKeys();
  const auto known = std::ranges::find_if(keys, [&](const ConfigKey& k) { return k.name == name; });
  if (known == keys.end()) return absl::StrCat("unknown key '", name, "'");
  if (!seen.insert(name).second) return absl::StrCat("key '", name, "' is given twice");
  const bool read = std::visit([&](auto member) { return Read(value, config.*member); }, known->field);
  return read ? "" : absl::StrCat("'", name, "' must be ", KindOf(known->field));
}

}  // namespace

absl::Status ApplyYaml(absl::string_view yaml, absl::string_view source, ServerConfig& config) {
  std::vector<std::string> faults;
  const auto at = [&](const YAML::Mark& mark) { return absl::StrCat(source, ":", mark.line + 1, ": "); };
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(source, ": must be a mapping of keys to values"));
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string fault = ApplyEntry(entry.first, entry.second, seen, config);
      if (!fault.empty()) faults.push_back(at(entry.first.Mark()) + fault);
    }
  } catch (const YAML::Exception& e) {
    faults.push_back(at(e.mark) + e.msg);
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(faults, "\n"));
}

absl::Status ApplyConfigFile(const std::string& path, ServerConfig& config) {
  std::ifstream file(path);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf() || file.peek() == std::ifstream::traits_type::eof())) {
    return absl::NotFoundError(absl::StrCat("configuration file ", path, " cannot be read"));
  }
  return ApplyYaml(content.str(), path, config);
}

}  // namespace embps
