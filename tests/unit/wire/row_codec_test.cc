#include "proto/wire/row_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "proto/base/error.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<int64_t>> Decode(const std::vector<int64_t>& ids, bool distinct = true) {
  return DecodeRowIds(*CaseTable(3), BytesOf(ids), 4, distinct);
}

void ExpectError(const absl::Status& status, Reason reason, const char* text) {
  EXPECT_EQ(ReasonOf(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(RowCodecTest, IdsOfThisNodesRowsAreTaken) {
  EXPECT_THAT(*Decode({34, 66, 40}), ElementsAre(34, 66, 40));
  EXPECT_THAT(*Decode({}), ElementsAre());
  EXPECT_THAT(*Decode({34, 34}, false), ElementsAre(34, 34));
}

TEST(RowCodecTest, BadIdsAreNamed) {
  ExpectError(Decode({34, 100, -1}).status(), Reason::kIdOutOfRange, "id 100 at position 1");
  ExpectError(Decode({34, 67}).status(), Reason::kBadJaggedLayout, "this one holds rows [34, 67)");
  ExpectError(Decode({34, 40, 34}).status(), Reason::kBadJaggedLayout, "id 34 at position 2 occurs before");
  ExpectError(Decode({34, 35, 36, 37, 38}).status(), Reason::kBadJaggedLayout, "5 entries, the limit is 4");
  ExpectError(DecodeRowIds(*CaseTable(3), "1234567", 4, true).status(), Reason::kBadJaggedLayout,
              "ids: 7 bytes are no whole number of int64");
}

TEST(RowCodecTest, ValuesHaveTheirSizeAndAreFinite) {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(*DecodeRowValues("rows", BytesOf(rows), 2, 3), rows);
  EXPECT_TRUE(DecodeRowValues("rows", "", 0, 3)->empty());
  ExpectError(DecodeRowValues("rows", BytesOf(rows), 2, 2).status(), Reason::kBadJaggedLayout,
              "rows: 24 bytes given, 16 expected (fp32 [2, 2])");
  const std::vector<float> bad = {1, 2, 3, 4, NAN, 6};
  ExpectError(DecodeRowValues("state0", BytesOf(bad), 2, 3).status(), Reason::kBadJaggedLayout,
              "state0: row 1, column 1 is not finite");
}

TEST(RowCodecTest, ArrayBytesIsAView) {
  const std::vector<float> rows = {1, 2};
  const absl::string_view bytes = ArrayBytes(rows.data(), 2);
  EXPECT_EQ(bytes.size(), 8u);
  EXPECT_EQ(bytes.data(), reinterpret_cast<const char*>(rows.data()));
}

}  // namespace
}  // namespace embps::wire
