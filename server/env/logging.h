// Structured logs: one line per event, `event key=value key="value with spaces"`. A value is quoted when it is empty or
// holds a space, a quote, '=' or a control byte; inside quotes '"' and '\' are escaped by '\' and control bytes written
// as \n, \r, \t or \xHH, so that a line is never broken by what a client sent.
#pragma once
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace embps {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// "debug", "info", "warning", "error", "off".
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);
absl::string_view LogLevelName(LogLevel level);

// key is a literal such as "table_uid"; it is borrowed and written as it is.
class LogField {
 public:
  LogField(absl::string_view key, absl::string_view value) : key_(key), value_(value) {}
  LogField(absl::string_view key, const char* value) : key_(key), value_(value) {}
  LogField(absl::string_view key, const std::string& value) : key_(key), value_(value) {}
  LogField(absl::string_view key, const absl::Status& value) : key_(key), value_(value.ToString()) {}
  LogField(absl::string_view key, bool value) : key_(key), value_(value ? "true" : "false") {}
  template <class T>
    requires(std::integral<T> || std::floating_point<T>)
  LogField(absl::string_view key, T value) : key_(key), value_(absl::StrCat(value)) {}

  absl::string_view key() const { return key_; }
  const std::string& value() const { return value_; }

 private:
  absl::string_view key_;
  std::string value_;
};

// Thread-safe if its sink is. Passed by reference from the composition root; there is no global logger.
class Logger {
 public:
  // line: without time and level, without a line end.
  using Sink = std::function<void(LogLevel level, absl::string_view line)>;
  using Fields = std::initializer_list<LogField>;

  Logger(LogLevel least, Sink sink);

  bool enabled(LogLevel level) const { return level >= least_; }
  void Log(LogLevel level, absl::string_view event, Fields fields = {}) const;
  void Debug(absl::string_view event, Fields fields = {}) const { Log(LogLevel::kDebug, event, fields); }
  void Info(absl::string_view event, Fields fields = {}) const { Log(LogLevel::kInfo, event, fields); }
  void Warning(absl::string_view event, Fields fields = {}) const { Log(LogLevel::kWarning, event, fields); }
  void Error(absl::string_view event, Fields fields = {}) const { Log(LogLevel::kError, event, fields); }

 private:
  const LogLevel least_;
  const Sink sink_;
};

// To standard error: `2025-01-31T12:00:00.123Z info event key=value`.
std::unique_ptr<Logger> NewStderrLogger(LogLevel least);

// Writes nothing; lives as long as the process. For tests and tools.
const Logger& DiscardingLogger();

}  // namespace embps
