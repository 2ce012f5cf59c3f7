#include "server/env/logging.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "proto/base/error.h"

namespace embps {
namespace {

using Lines = std::vector<std::pair<LogLevel, std::string>>;

Logger Collecting(LogLevel least, Lines* lines) {
  return Logger(least,
                [lines](LogLevel level, absl::string_view line) { lines->emplace_back(level, std::string(line)); });
}

TEST(LoggingTest, WritesEventAndFieldsAsKeyValue) {
  Lines lines;
  Collecting(LogLevel::kInfo, &lines)
      .Info("table_created", {{"uid", uint64_t{7}}, {"name", "clicks"}, {"ok", true}, {"rate", 0.5}, {"rank", -1}});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].first, LogLevel::kInfo);
  EXPECT_EQ(lines[0].second, "table_created uid=7 name=clicks ok=true rate=0.5 rank=-1");
}

TEST(LoggingTest, QuotesAndEscapesWhatWouldBreakALine) {
  Lines lines;
  Collecting(LogLevel::kInfo, &lines)
      .Warning("odd", {{"empty", ""},
                       {"spaced", "two words"},
                       {"forged", std::string("x\nINFO admin=1")},
                       {"quoted", "say \"hi\\\""},
                       {"control", std::string("\x01\x7f\t", 3)}});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].second,
            "odd empty=\"\" spaced=\"two words\" forged=\"x\\nINFO admin=1\" quoted=\"say \\\"hi\\\\\\\"\" "
            "control=\"\\x01\\x7f\\t\"");
}

TEST(LoggingTest, LeavesOutWhatIsBelowTheLevel) {
  Lines lines;
  const Logger logger = Collecting(LogLevel::kWarning, &lines);
  logger.Debug("a");
  logger.Info("b");
  logger.Warning("c");
  logger.Error("d");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].second, "c");
  EXPECT_EQ(lines[1].first, LogLevel::kError);
  EXPECT_FALSE(logger.enabled(LogLevel::kInfo));
}

TEST(LoggingTest, OffWritesNothing) {
  Lines lines;
  Collecting(LogLevel::kOff, &lines).Error("lost");
  DiscardingLogger().Error("lost");
  EXPECT_TRUE(lines.empty());
}

TEST(LoggingTest, StatusBecomesItsText) {
  Lines lines;
  Collecting(LogLevel::kInfo, &lines).Error("failed", {{"why", absl::NotFoundError("gone")}});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].second.find("NOT_FOUND: gone"), std::string::npos) << lines[0].second;
}

TEST(LoggingTest, LevelNamesRoundTripAndOthersAreRefused) {
  for (const char* name : {"debug", "info", "warning", "error", "off"}) {
    const auto level = ParseLogLevel(name);
    ASSERT_TRUE(level.ok()) << name;
    EXPECT_EQ(LogLevelName(*level), name);
  }
  EXPECT_EQ(ParseLogLevel("loud").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LoggingTest, StderrLinesCarryTimeAndLevel) {
  ::testing::internal::CaptureStderr();
  NewStderrLogger(LogLevel::kInfo)->Warning("disk_slow", {{"ms", 12}});
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("Z warning disk_slow ms=12\n"), std::string::npos) << line;
}

}  // namespace
}  // namespace embps
