#include <string>

#include "embps/options.h"
#include "embps/stats.h"
#include "embps/table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace embps {
namespace {

template <typename Enum>
void ExpectRoundTrip(int count) {
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    auto parsed = static_cast<Enum>(count - 1 - i);
    EXPECT_TRUE(ParseName(Name(value), &parsed)) << Name(value);
    EXPECT_EQ(parsed, value);
  }
  Enum untouched = static_cast<Enum>(0);
  EXPECT_FALSE(ParseName("NO_SUCH_NAME", &untouched));
}

TEST(NamesTest, EveryNameParsesBack) {
  ExpectRoundTrip<DataType>(3);
  ExpectRoundTrip<IdType>(2);
  ExpectRoundTrip<Pooling>(3);
  ExpectRoundTrip<ShardingType>(6);
  ExpectRoundTrip<OptimizerType>(8);
  ExpectRoundTrip<WeightDecayMode>(3);
  ExpectRoundTrip<InitializerKind>(4);
}

TEST(NamesTest, NamesParseInAnyCase) {
  ShardingType type = ShardingType::kAuto;
  EXPECT_TRUE(ParseName("row_wise", &type));
  EXPECT_EQ(type, ShardingType::kRowWise);
}

TEST(OptionsTest, ValidateListsAllFaultsAtOnce) {
  ClientOptions options;
  options.lookup_timeout_ms = 0;
  options.retry.jitter = 1.5;
  options.channels_per_node = 0;
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field : {"nodes", "lookup_timeout_ms", "retry.jitter", "channels_per_node"}) {
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(field));
  }
}

}  // namespace
}  // namespace embps
