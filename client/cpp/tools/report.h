// What a command found, for people (aligned columns) and for programs (JSON).
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/tools/arguments.h"
#include "client/cpp/tools/exit_code.h"

namespace embps::tools {

using Json = nlohmann::ordered_json;

struct Report {
  ExitCode exit_code = ExitCode::kOk;
  Json json;
  std::string text;  // ends with a newline unless empty
};

// Columns as wide as their widest cell; a column of nothing but numbers is set flush right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

// 64-bit identities (incarnations, table uids), which are no quantities and do not fit JSON's doubles:
// "0x0123456789abcdef".
std::string Hex(uint64_t value);
// The shortest decimal that gives the same fp32 back.
std::string FloatText(float value);
// The same as a JSON number; null for NaN and Inf.
Json FloatJson(float value);
// "1.5 GiB".
std::string BytesText(double bytes);

// {"code": "NOT_FOUND", "reason": "TABLE_NOT_FOUND", "message": ..., "details": {...}}
Json StatusJson(const absl::Status& status);
// "NOT_FOUND TABLE_NOT_FOUND: message", "OK".
std::string StatusText(const absl::Status& status);

// One document of JSON, or the text.
std::string Render(const Report& report, Format format);
// A failed command: {"error": ...}, or "embpsctl: ...".
std::string RenderError(const absl::Status& status, Format format);

}  // namespace embps::tools
