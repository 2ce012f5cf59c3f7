#include "proto/base/error.h"

#include <gtest/gtest.h>

namespace embps {
namespace {

TEST(ErrorTest, EveryReasonRoundTripsThroughItsName) {
  for (int i = 1; i <= static_cast<int>(Reason::kCheckpointCorrupt); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_FALSE(ReasonName(reason).empty());
    EXPECT_EQ(ReasonFromName(ReasonName(reason)), reason);
    EXPECT_NE(CodeOf(reason), absl::StatusCode::kOk);
  }
  EXPECT_EQ(ReasonFromName("NO_SUCH_REASON"), Reason::kNone);
}

TEST(ErrorTest, CarriesReasonMessageAndMetadata) {
  const absl::Status status =
      MakeError(Reason::kIdOutOfRange, "table 'a'", {{"table", "a"}, {"empty", ""}, {"rows", "5"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ReasonOf(status), Reason::kIdOutOfRange);
  EXPECT_EQ(MetadataValue(status, "table"), "a");
  EXPECT_EQ(MetadataValue(status, "empty"), "");
  EXPECT_EQ(MetadataValue(status, "rows"), "5");
  EXPECT_EQ(MetadataOf(status).size(), 3u);
  EXPECT_EQ(ReasonOf(absl::InternalError("plain")), Reason::kNone);
}

TEST(ErrorTest, LongTextIsCutBelowTheTrailerLimit) {
  const std::string longer(5000, 'x');
  const absl::Status status = MakeError(Reason::kMalformed, longer, {{"key", longer}, {"k", "v"}});
  EXPECT_LE(status.message().size(), 3u << 10);
  EXPECT_EQ(ReasonOf(status), Reason::kMalformed);
  EXPECT_TRUE(MetadataOf(status).empty());
}

}  // namespace
}  // namespace embps
