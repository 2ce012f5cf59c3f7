#include "proto/wire/bulk_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embps/v1/table.pb.h"
#include "proto/base/error.h"
#include "proto/wire/bulk_encode.h"
#include "proto/wire/parse_message.h"
#include "proto/wire/payload_checksum.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Joined(const BulkSpans& spans) {
  std::string bytes;
  for (absl::string_view part : spans.parts) bytes.append(part.data(), part.size());
  EXPECT_EQ(bytes.size(), spans.bytes);
  return bytes;
}

TEST(BulkMessageTest, SplitsWhatTheGeneratedSerialiserWroteHoweverItIsCut) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    v1::PushGradRequest request = RandomPush(random, {});
    request.set_payload_checksum(random());
    const std::string bytes = request.SerializeAsString();
    const CutBytes cut(bytes, random, 20);
    v1::PushGradRequest header;
    BulkMessage bulk;
    ASSERT_TRUE(ParseBulkMessage(cut.pieces(), &header, &bulk).ok());
    EXPECT_EQ(header.header().SerializeAsString(), request.header().SerializeAsString());
    EXPECT_EQ(header.payload_checksum(), request.payload_checksum());
    EXPECT_THAT(header.ids(), IsEmpty());
    const std::vector<std::string> expected = BulkOf(request);
    for (int i = 0; i < kBulkFieldCount; ++i) EXPECT_EQ(Joined(bulk.bulk(i)), expected[static_cast<size_t>(i)]);
  }
}

TEST(BulkMessageTest, EncodesTheBytesOfTheGeneratedSerialiser) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    const v1::PushGradRequest request = RandomPush(random, {});
    v1::PushGradRequest header;
    *header.mutable_header() = request.header();
    std::vector<OutBulk> bulk;
    const std::vector<std::string> contents = BulkOf(request);
    for (int i = 0; i < kBulkFieldCount; ++i) {
      const absl::string_view bytes = contents[static_cast<size_t>(i)];
      bulk.push_back({i, {{bytes.substr(0, bytes.size() / 3), nullptr}, {bytes.substr(bytes.size() / 3), nullptr}}});
    }
    const OutMessage message = EncodeBulkMessage(header, bulk);
    EXPECT_EQ(Concatenate(message), request.SerializeAsString());
    EXPECT_EQ(TotalBytes(message), request.ByteSizeLong());
  }
}

TEST(BulkMessageTest, PayloadIsViewsAndFramingOwnsItself) {
  const std::string blocks(1000, 'b');
  v1::LookupResponse reply;
  reply.set_version(7);
  const OutMessage message = EncodeBulkMessage(reply, std::vector<OutBulk>{{kBlocks, {{blocks, nullptr}}}});
  ASSERT_EQ(message.size(), 2u);
  EXPECT_NE(message[0].owner, nullptr);
  EXPECT_EQ(message[1].bytes.data(), blocks.data());
}

TEST(BulkMessageTest, AMessageWithoutAnythingHasNoPieces) {
  EXPECT_THAT(EncodeBulkMessage(v1::LookupResponse(), {}), IsEmpty());
  EXPECT_TRUE(ParseMessage<v1::LookupResponse>({}).ok());
}

TEST(BulkMessageTest, RepeatedFieldsTakeTheLastAndOrderIsFree) {
  v1::LookupRequest first, second;
  first.set_ids("first-id");
  first.set_payload_checksum(1);
  second.set_ids("second-i");
  second.set_payload_checksum(2);
  second.mutable_header()->set_id_count(9);
  const std::string bytes = first.SerializeAsString() + second.SerializeAsString();
  v1::LookupRequest header;
  BulkMessage bulk;
  ASSERT_TRUE(ParseBulkMessage({bytes}, &header, &bulk).ok());
  EXPECT_EQ(Joined(bulk.bulk(kIds)), "second-i");
  EXPECT_EQ(header.payload_checksum(), 2u);
  EXPECT_EQ(header.header().id_count(), 9u);
}

TEST(BulkMessageTest, BulkNumbersThatTheMessageDoesNotDeclareAreUnknownFields) {
  v1::PushGradRequest push;
  push.set_grads("gggg");
  push.set_lengths("llllllll");
  v1::LookupRequest header;
  BulkMessage bulk;
  const std::string bytes = push.SerializeAsString();
  ASSERT_TRUE(ParseBulkMessage({bytes}, &header, &bulk).ok());
  EXPECT_EQ(bulk.bulk(kGrads).bytes, 0u);
  EXPECT_EQ(Joined(bulk.bulk(kLengths)), "llllllll");
}

struct MalformedCase {
  const char* name;
  std::string bytes;
  const char* text;
};

class MalformedTest : public testing::TestWithParam<MalformedCase> {};

TEST_P(MalformedTest, NamesTheMessageAndWhatIsWrong) {
  v1::LookupRequest header;
  BulkMessage bulk;
  const absl::Status status = ParseBulkMessage({GetParam().bytes}, &header, &bulk);
  EXPECT_EQ(ReasonOf(status), Reason::kMalformed);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().text));
  EXPECT_EQ(ParseMessage<v1::LookupRequest>({GetParam().bytes}).status(), status);
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedTest,
    testing::ValuesIn(std::vector<MalformedCase>{
        {"TruncatedBulk", "\xa2\x06\x10xx", "LookupRequest: truncated: 16 bytes declared, 2 left in field 100, byte 0"},
        {"TruncatedTag", "\xa2", "bad tag, byte 0"},
        {"FieldZero", std::string("\x02\x00", 2), "bad tag, byte 0"},
        {"TruncatedHeader", "\x0a\x7f", "the field declares more bytes than are left in field 1, byte 0"},
        {"HugeLength", "\xa2\x06\xff\xff\xff\xff\x0f", "truncated: 4294967295 bytes declared, 0 left in field 100"},
        {"OverlongLength", "\xa2\x06\xff\xff\xff\xff\xff\x01", "truncated or overlong length in field 100"},
        {"OverlongVarint", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "overlong varint in field 3"},
        {"StrayGroupEnd", "\x0c", "end of a group that never began in field 1"},
        {"UnterminatedGroup", "\xbb\x3e\x08\x01", "unterminated group"},
        {"UnknownWireType", "\x0f", "unknown wire type in field 1"},
        {"BadNestedMessage", std::string("\x0a\x02\x0a\x7f", 4), "LookupRequest: field 1 (header) does not parse"},
        {"WrongNumbersOfGroup", "\xbb\x3e\xc4\x3e", "field 999 does not parse"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(BulkMessageTest, StringsThatAreNotUtf8AreNamed) {
  std::string bytes = "\x0a\x02\xff\xff";
  const absl::Status status = ParseMessage<v1::GetTableRequest>({bytes}).status();
  EXPECT_EQ(status.message(), "GetTableRequest: field 1 (namespace) does not parse");
}

TEST(BulkMessageTest, LimitsHold) {
  v1::LookupRequest request;
  request.mutable_header()->set_session_id(std::string(200, 's'));
  request.set_ids(std::string(300, 'i'));
  const std::string bytes = request.SerializeAsString();
  BulkMessage bulk;
  EXPECT_TRUE(bulk.Split(ShapeOf<v1::LookupRequest>(), {bytes}, {.max_header_bytes = 300}).ok());
  EXPECT_EQ(bulk.payload_bytes(), 300u);
  EXPECT_EQ(ReasonOf(bulk.Split(ShapeOf<v1::LookupRequest>(), {bytes}, {.max_header_bytes = 100})), Reason::kMalformed);
  EXPECT_EQ(ReasonOf(bulk.Split(ShapeOf<v1::LookupRequest>(), {bytes}, {.max_message_bytes = 400})),
            Reason::kMalformed);
}

TEST(PayloadChecksumTest, CoversBulkInFieldOrderAcrossPieces) {
  v1::PushGradRequest request;
  request.set_lengths("abc");
  request.set_grads("defg");
  const std::string bytes = request.SerializeAsString();
  std::vector<absl::string_view> pieces;
  for (size_t i = 0; i < bytes.size(); ++i) pieces.push_back(absl::string_view(bytes).substr(i, 1));
  BulkMessage bulk;
  ASSERT_TRUE(bulk.Split(ShapeOf<v1::PushGradRequest>(), pieces).ok());
  Digest64 digest;
  digest.Update("abcdefg", 7);
  EXPECT_EQ(PayloadChecksum(bulk), digest.value());
  EXPECT_EQ(digest.value(), 0x1860940e2902822dull) << "XXH64 of abcdefg, seed 0";
  EXPECT_TRUE(VerifyChecksum(bulk, digest.value()).ok());
  const absl::Status status = VerifyChecksum(bulk, 1);
  EXPECT_EQ(ReasonOf(status), Reason::kChecksumMismatch);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0000000000000001"));
  EXPECT_TRUE(VerifyChecksum(v1::PushGradRequest(), bulk).ok()) << "no checksum, nothing to verify";
  v1::PushGradRequest with;
  with.set_payload_checksum(0);
  EXPECT_FALSE(VerifyChecksum(with, bulk).ok());
}

TEST(PayloadChecksumTest, OfNothingIsTheSeedsOwn) {
  EXPECT_EQ(PayloadChecksum(BulkMessage()), 0xef46db3751d8e999ull);
  EXPECT_EQ(PayloadChecksum(std::vector<OutBulk>{}), 0xef46db3751d8e999ull);
}

}  // namespace
}  // namespace embps::wire
