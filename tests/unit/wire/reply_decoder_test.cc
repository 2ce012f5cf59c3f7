#include "proto/wire/reply_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/base/error.h"
#include "tests/unit/wire/wire_request.h"

namespace embps::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Run RunOf(uint32_t first, uint32_t count, uint64_t begin, uint64_t rows, uint32_t dim) {
  v1::Run run;
  run.set_first_feature(first);
  run.set_feature_count(count);
  run.set_row_begin(begin);
  run.set_row_count(rows);
  run.set_dim(dim);
  return run;
}

// Two pooled features of D = 2 and 1 in the columns of [3, 4]; the last column stays free.
class ReplyDecoderTest : public testing::Test {
 protected:
  absl::Status Append(const std::vector<v1::Run>& runs, const std::vector<float>& blocks) {
    v1::LookupStreamResponse header;
    for (const v1::Run& run : runs) *header.add_runs() = run;
    memory_.push_back(BytesOf(blocks));
    BulkMessage message;
    message.SetBulk(kBlocks, {{memory_.back()}, memory_.back().size()});
    return decoder_.Append(header, message);
  }

  std::vector<float> tensor_ = std::vector<float>(12, -1.0f);
  std::vector<std::string> memory_;
  ReplyDecoder decoder_{{{3, 2, tensor_.data(), 16}, {3, 1, tensor_.data() + 2, 16}}, {}};
};

TEST_F(ReplyDecoderTest, PutsBlocksIntoColumnsInWhateverOrderTheyCome) {
  ASSERT_TRUE(Append({RunOf(1, 1, 0, 3, 1)}, {7, 8, 9}).ok());
  EXPECT_FALSE(decoder_.complete());
  EXPECT_THAT(std::string(decoder_.CheckComplete().message()), HasSubstr("0 of 3 rows of feature 0 arrived"));
  ASSERT_TRUE(Append({RunOf(0, 1, 2, 1, 2), RunOf(0, 1, 0, 2, 2)}, {5, 6, 1, 2, 3, 4}).ok());
  EXPECT_TRUE(decoder_.complete());
  EXPECT_THAT(tensor_, ElementsAre(1, 2, 7, -1, 3, 4, 8, -1, 5, 6, 9, -1));
}

TEST_F(ReplyDecoderTest, RefusesRunsThatDoNotFitAndWritesNothing) {
  const std::vector<float> before = tensor_;
  const auto expect_refused = [&](const std::vector<v1::Run>& runs, const std::vector<float>& blocks,
                                  const char* text) {
    ReplyDecoder fresh({{3, 2, tensor_.data(), 16}, {3, 1, tensor_.data() + 2, 16}}, {});
    std::swap(decoder_, fresh);
    const absl::Status status = Append(runs, blocks);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ReasonOf(status), Reason::kMalformed);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(tensor_, before);
  };
  expect_refused({RunOf(0, 1, 0, 3, 2)}, {1, 2, 3, 4, 5}, "blocks of 20 bytes do not hold the 6 elements");
  expect_refused({RunOf(0, 1, 0, 3, 2)}, {1, 2, 3, 4, 5, 6, 7}, "blocks of 28 bytes do not hold the 6 elements");
  expect_refused({RunOf(0, 1, 0, 4, 2)}, {}, "rows 0 + 4 of feature 0, which has 3");
  expect_refused({RunOf(0, 1, UINT64_MAX, 2, 2)}, {}, "of feature 0, which has 3");
  expect_refused({RunOf(0, 1, 1, UINT64_MAX, 2)}, {}, "of feature 0, which has 3");
  expect_refused({RunOf(1, 2, 0, 1, 1)}, {}, "features 1 to 3 of 2");
  expect_refused({RunOf(UINT32_MAX, UINT32_MAX, 0, 1, 1)}, {}, "of 2");
  expect_refused({RunOf(0, 2, 0, 1, 2)}, {}, "dim 2 of feature 1, which has 1");
  expect_refused({RunOf(0, 1, 0, 2, 2), RunOf(0, 1, 1, 1, 2)}, {1, 2, 3, 4, 5, 6},
                 "rows 1 to 2 of feature 0 came twice");
}

TEST_F(ReplyDecoderTest, RowsCutByPiecesAreJoined) {
  const std::vector<float> blocks = {1, 2, 3, 4, 5, 6};
  const std::string bytes = BytesOf(blocks);
  v1::LookupResponse header;
  *header.add_runs() = RunOf(0, 1, 0, 3, 2);
  BulkSpans spans;
  spans.bytes = bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 5) spans.parts.push_back(absl::string_view(bytes).substr(i, 5));
  BulkMessage message;
  message.SetBulk(kBlocks, spans);
  ASSERT_TRUE(decoder_.Append(header, message).ok());
  EXPECT_THAT(tensor_, ElementsAre(1, 2, -1, -1, 3, 4, -1, -1, 5, 6, -1, -1));
}

TEST(ReplyDecoderSizesTest, HalfPrecisionOutputsAndEmptyFeatures) {
  std::vector<uint16_t> out(4, 0xffff);
  ReplyDecoder decoder({{2, 2, out.data(), 4}, {0, 3, nullptr, 6}}, {.output_dtype = v1::DATA_TYPE_BF16});
  v1::LookupResponse header;
  *header.add_runs() = RunOf(0, 1, 0, 2, 2);
  *header.add_runs() = RunOf(1, 1, 0, 0, 3);
  const std::string bytes = BytesOf(std::vector<uint16_t>{1, 2, 3, 4});
  BulkMessage message;
  message.SetBulk(kBlocks, {{bytes}, bytes.size()});
  ASSERT_TRUE(decoder.Append(header, message).ok());
  EXPECT_THAT(out, ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(decoder.complete());
  EXPECT_TRUE(ReplyDecoder({}, {}).complete());
}

}  // namespace
}  // namespace embps::wire
