#include "proto/wire/request_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "proto/base/error.h"

namespace embps::wire {
namespace {

using ::testing::HasSubstr;

void ExpectMalformed(const absl::Status& status, const char* text) {
  EXPECT_EQ(ReasonOf(status), Reason::kMalformed) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(RequestChecksTest, MutationIds) {
  v1::MutationId id;
  ExpectMalformed(CheckMutationId(id), "mutation.session_id: 0 bytes, must be 16");
  id.set_session_id("0123456789abcdef");
  ExpectMalformed(CheckMutationId(id), "mutation.sequence: 0");
  id.set_sequence(5);
  ExpectMalformed(CheckMutationId(id), "mutation.first_incomplete: 0 is not in [1, 5]");
  id.set_first_incomplete(6);
  ExpectMalformed(CheckMutationId(id), "mutation.first_incomplete: 6 is not in [1, 5]");
  id.set_first_incomplete(5);
  EXPECT_TRUE(CheckMutationId(id).ok());
}

TEST(RequestChecksTest, PushOptions) {
  v1::PushGradHeader header;
  header.add_features()->set_table_uid(3);
  EXPECT_TRUE(CheckPushOptions(header).ok());
  header.set_lookup_token("short");
  ExpectMalformed(CheckPushOptions(header), "header.lookup_token: 5 bytes, must be 0 or 16");
  header.clear_lookup_token();
  v1::PushLearningRate* rate = header.add_learning_rates();
  rate->set_table_uid(4);
  ExpectMalformed(CheckPushOptions(header), "header.learning_rates[0].table_uid: no feature of the push names table 4");
  rate->set_table_uid(3);
  EXPECT_TRUE(CheckPushOptions(header).ok());
  for (float bad : {-1.0f, NAN, HUGE_VALF}) {
    rate->set_learning_rate(bad);
    ExpectMalformed(CheckPushOptions(header), "header.learning_rates[0].learning_rate");
  }
  rate->set_learning_rate(0.5f);
  *header.add_learning_rates() = *rate;
  ExpectMalformed(CheckPushOptions(header), "header.learning_rates[1].table_uid: table 3 has two learning rates");
}

TEST(RequestChecksTest, LookupOptions) {
  v1::LookupHeader header;
  EXPECT_TRUE(CheckLookupOptions(header).ok());
  header.set_want_lookup_token(true);
  ExpectMalformed(CheckLookupOptions(header), "want_lookup_token needs one");
  header.set_session_id("x");
  ExpectMalformed(CheckLookupOptions(header), "header.session_id: 1 bytes, must be 0 or 16");
  header.set_session_id("0123456789abcdef");
  EXPECT_TRUE(CheckLookupOptions(header).ok());
  header.set_out_of_range_policy(static_cast<v1::OutOfRangePolicy>(-1));
  ExpectMalformed(CheckLookupOptions(header), "out_of_range_policy: unknown value -1");
}

TEST(RequestChecksTest, UnspecifiedMeansTheDefault) {
  EXPECT_EQ(DataTypeOrDefault(v1::DATA_TYPE_UNSPECIFIED), v1::DATA_TYPE_FP32);
  EXPECT_EQ(DataTypeBytes(v1::DATA_TYPE_UNSPECIFIED), 4);
  EXPECT_EQ(DataTypeBytes(v1::DATA_TYPE_BF16), 2);
  EXPECT_EQ(DataTypeBytes(static_cast<v1::DataType>(17)), 0);
  EXPECT_EQ(IdTypeBytes(v1::ID_TYPE_UNSPECIFIED), 8);
  EXPECT_EQ(IdTypeBytes(v1::ID_TYPE_INT32), 4);
  EXPECT_EQ(IdTypeBytes(static_cast<v1::IdType>(3)), 0);
  EXPECT_EQ(PolicyOrDefault(v1::OUT_OF_RANGE_POLICY_UNSPECIFIED), v1::OUT_OF_RANGE_POLICY_ERROR);
  EXPECT_EQ(PolicyOrDefault(v1::NONFINITE_POLICY_UNSPECIFIED), v1::NONFINITE_POLICY_REFUSE);
}

}  // namespace
}  // namespace embps::wire
