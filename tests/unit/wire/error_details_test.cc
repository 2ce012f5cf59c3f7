#include "proto/wire/error_details.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "embps/rpc/status.pb.h"
#include "google/protobuf/any.pb.h"
#include "proto/base/error.h"

namespace embps::wire {
namespace {

using ::testing::UnorderedElementsAre;

TEST(ErrorDetailsTest, ReasonAndMetadataComeBack) {
  const absl::Status status = MakeError(Reason::kIdOutOfRange, "id 50", {{"table", "t"}, {"rows", "50"}});
  const WireError error = EncodeError(status);
  EXPECT_EQ(error.code, absl::StatusCode::kOutOfRange);
  EXPECT_EQ(error.message, "id 50");
  const absl::Status back = DecodeError(error.code, error.message, error.details);
  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(back.message(), status.message());
  EXPECT_EQ(ReasonOf(back), Reason::kIdOutOfRange);
  EXPECT_THAT(MetadataOf(back), UnorderedElementsAre(std::pair("table", "t"), std::pair("rows", "50")));
}

TEST(ErrorDetailsTest, IsTheWellKnownMessageWithOneErrorInfo) {
  rpc::Status status;
  ASSERT_TRUE(status.ParseFromString(EncodeError(MakeError(Reason::kPlanStale, "stale")).details));
  EXPECT_EQ(status.code(), 10);
  EXPECT_EQ(status.message(), "stale");
  ASSERT_EQ(status.details_size(), 1);
  EXPECT_EQ(status.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  rpc::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(status.details(0).value()));
  EXPECT_EQ(info.reason(), "PLAN_STALE");
  EXPECT_EQ(info.domain(), "embps");
}

TEST(ErrorDetailsTest, EveryReasonSurvives) {
  for (int i = 1; i <= static_cast<int>(Reason::kCheckpointCorrupt); ++i) {
    const WireError error = EncodeError(MakeError(static_cast<Reason>(i), "x"));
    EXPECT_EQ(ReasonOf(DecodeError(error.code, error.message, error.details)), static_cast<Reason>(i));
  }
}

TEST(ErrorDetailsTest, WithoutReasonThereAreNoDetails) {
  const WireError error = EncodeError(absl::InternalError("plain"));
  EXPECT_EQ(error.details, "");
  EXPECT_EQ(DecodeError(error.code, error.message, ""), absl::InternalError("plain"));
}

TEST(ErrorDetailsTest, TextAndDetailsStayWithin4KiB) {
  ErrorMetadata metadata;
  for (int i = 0; i < 700; ++i) metadata.emplace_back("", "");
  for (const std::string& text : {std::string(5000, 'a'), std::string(5000, '%'), std::string(5000, '\xff')}) {
    const WireError error = EncodeError(MakeError(Reason::kMalformed, text, metadata));
    size_t bytes = error.details.size();
    for (char c : error.message) bytes += (c >= 0x20 && c <= 0x7e && c != '%') ? 1 : 3;
    EXPECT_LE(bytes, kMaxErrorTrailerBytes);
    EXPECT_EQ(ReasonOf(DecodeError(error.code, error.message, error.details)), Reason::kMalformed);
  }
  metadata.assign(1, {"table", std::string(900, 'x')});
  metadata.emplace_back("more", std::string(1024, 'y'));
  const WireError error = EncodeError(MakeError(Reason::kMalformed, std::string(600, 'm'), metadata));
  const absl::Status back = DecodeError(error.code, error.message, error.details);
  EXPECT_EQ(MetadataValue(back, "table").size(), 900u);
  EXPECT_EQ(MetadataValue(back, "more").size(), 1024u);
}

TEST(ErrorDetailsTest, TextBecomesValidUtf8) {
  EXPECT_EQ(EncodeError(absl::InternalError("a\xc3\xa4\xff\xc3)\xed\xa0\x80\xf0\x9f\x98\x80")).message,
            "a\xc3\xa4?\?)?\?\?\xf0\x9f\x98\x80");
}

TEST(ErrorDetailsTest, ForeignOrBrokenDetailsLeaveThePlainStatus) {
  const absl::Status plain(absl::StatusCode::kAborted, "text");
  EXPECT_EQ(DecodeError(absl::StatusCode::kAborted, "text", "\x0a\xff junk"), plain);
  rpc::Status foreign;
  rpc::ErrorInfo info;
  info.set_reason("MALFORMED");
  info.set_domain("somebody.else");
  foreign.add_details()->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  foreign.mutable_details(0)->set_value(info.SerializeAsString());
  EXPECT_EQ(DecodeError(absl::StatusCode::kAborted, "text", foreign.SerializeAsString()), plain);
}

}  // namespace
}  // namespace embps::wire
