#include "client/cpp/tools/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "proto/base/error.h"

namespace embps::tools {
namespace {

using testing::HasSubstr;

TEST(TextTableTest, AlignsColumnsAndSetsNumbersRight) {
  TextTable table({"NAME", "ROWS", "NOTE"});
  table.Add({"a", "5", "x"});
  table.Add({"longer", "12345", ""});
  EXPECT_EQ(table.ToString(),
            "NAME     ROWS  NOTE\n"
            "a           5  x\n"
            "longer  12345\n");
  EXPECT_EQ(TextTable({"NAME", "ROWS"}).ToString(), "NAME  ROWS\n");
}

TEST(ReportTest, FloatsAreShortAndExact) {
  EXPECT_EQ(FloatText(0.1f), "0.1");
  EXPECT_EQ(FloatText(-2.0f), "-2");
  EXPECT_EQ(FloatJson(0.1f).dump(), "0.1");
  EXPECT_EQ(FloatJson(16777216.0f).get<double>(), 16777216.0);
  EXPECT_TRUE(FloatJson(std::numeric_limits<float>::infinity()).is_null());
  EXPECT_TRUE(FloatJson(std::numeric_limits<float>::quiet_NaN()).is_null());
}

TEST(ReportTest, IdentitiesKeepAll64Bits) {
  EXPECT_EQ(Hex(0), "0x0000000000000000");
  EXPECT_EQ(Hex(0xfedcba9876543210u), "0xfedcba9876543210");
}

TEST(ReportTest, BytesHaveAUnit) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(3.0 * (1 << 30)), "3.0 GiB");
}

TEST(ReportTest, ErrorsCarryReasonAndDetails) {
  const absl::Status status = MakeError(Reason::kTableNotFound, "no table 'x'", {{"table", "x"}});
  EXPECT_EQ(RenderError(status, Format::kTable), "embpsctl: NOT_FOUND TABLE_NOT_FOUND: no table 'x'\n");
  const Json json = Json::parse(RenderError(status, Format::kJson));
  EXPECT_EQ(json["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(json["error"]["reason"], "TABLE_NOT_FOUND");
  EXPECT_EQ(json["error"]["message"], "no table 'x'");
  EXPECT_EQ(json["error"]["details"]["table"], "x");
  EXPECT_EQ(StatusText(absl::DeadlineExceededError("late")), "DEADLINE_EXCEEDED: late");
  EXPECT_EQ(StatusJson(absl::OkStatus()), Json({{"code", "OK"}}));
}

TEST(ReportTest, RendersOneOfTheTwo) {
  Report report;
  report.json = {{"name", "bytes \xff that are no UTF-8"}};
  report.text = "text\n";
  EXPECT_EQ(Render(report, Format::kTable), "text\n");
  EXPECT_THAT(Render(report, Format::kJson), HasSubstr("\"name\""));
  EXPECT_TRUE(Json::accept(Render(report, Format::kJson)));
}

}  // namespace
}  // namespace embps::tools
