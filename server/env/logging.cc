#include "server/env/logging.h"

#include <utility>

#include "proto/base/error.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace embps {
namespace {

bool NeedsQuotes(absl::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (c == ' ' || c == '"' || c == '=' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
  }
  return false;
}

void AppendEscaped(char c, std::string& line) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  switch (c) {
    case '"':
    case '\\':
      line += {'\\', c};
      return;
    case '\n':
      line += "\\n";
      return;
    case '\r':
      line += "\\r";
      return;
    case '\t':
      line += "\\t";
      return;
    default:
      break;
  }
  if (byte >= 0x20 && byte != 0x7f) {
    line += c;
  } else {
    line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
}

void AppendValue(absl::string_view value, std::string& line) {
  if (!NeedsQuotes(value)) {
    line.append(value.data(), value.size());
    return;
  }
  line += '"';
  for (const char c : value) AppendEscaped(c, line);
  line += '"';
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    if (LogLevelName(level) == name) return level;
  }
  return MakeError(Reason::kMalformed,
                   absl::StrCat("unknown log level '", name, "'; use debug, info, warning, error or off"));
}

absl::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "off";
}

Logger::Logger(LogLevel least, Sink sink) : least_(least), sink_(std::move(sink)) {}

void Logger::Log(LogLevel level, absl::string_view event, Fields fields) const {
  if (level == LogLevel::kOff || !enabled(level)) return;
  std::string line(event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key(), "=");
    AppendValue(field.value(), line);
  }
  sink_(level, line);
}

std::unique_ptr<Logger> NewStderrLogger(LogLevel least) {
  auto log = std::make_shared<spdlog::logger>("embps", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  log->set_level(spdlog::level::debug);  // Logger has already filtered
  log->flush_on(spdlog::level::debug);
  return std::make_unique<Logger>(least, [log](LogLevel level, absl::string_view line) {
    log->log(SpdlogLevel(level), spdlog::string_view_t(line.data(), line.size()));
  });
}

const Logger& DiscardingLogger() {
  static const Logger* const logger = new Logger(LogLevel::kOff, [](LogLevel, absl::string_view) {});
  return *logger;
}

}  // namespace embps
