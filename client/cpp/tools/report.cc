#include "client/cpp/tools/report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "embps/error.h"

namespace embps::tools {
namespace {

bool IsNumber(const std::string& cell) {
  double value = 0;
  return absl::SimpleAtod(cell, &value);
}

std::string CodeName(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

}  // namespace

std::string TextTable::ToString() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> numeric(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], rows_[r][c].size());
      if (r > 0 && !IsNumber(rows_[r][c])) numeric[c] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      if (c > 0) line += "  ";
      absl::StrAppend(&line, numeric[c] ? padding : "", row[c], numeric[c] ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string Hex(uint64_t value) { return absl::StrFormat("0x%016x", value); }

std::string FloatText(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

Json FloatJson(float value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(FloatText(value).c_str(), nullptr);
}

std::string BytesText(double bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, bytes, kUnits[unit]);
}

Json StatusJson(const absl::Status& status) {
  Json json = {{"code", CodeName(status)}};
  if (status.ok()) return json;
  json["reason"] = ErrorReason(status);
  json["message"] = std::string(status.message());
  json["details"] = Json::object();
  for (const auto& [key, value] : ErrorDetails(status)) json["details"][key] = value;
  return json;
}

std::string StatusText(const absl::Status& status) {
  if (status.ok()) return "OK";
  const std::string reason = ErrorReason(status);
  return absl::StrCat(CodeName(status), reason.empty() ? "" : " ", reason, ": ", std::string(status.message()));
}

std::string Render(const Report& report, Format format) {
  // Text that is no UTF-8 must not end the program.
  return format == Format::kJson ? report.json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : report.text;
}

std::string RenderError(const absl::Status& status, Format format) {
  if (format == Format::kTable) return absl::StrCat("embpsctl: ", StatusText(status), "\n");
  return Json{{"error", StatusJson(status)}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace embps::tools
