#include "proto/plan/table_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "proto/base/error.h"
#include "tests/unit/plan/spec_builder.h"

namespace embps::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(TableSpecTest, AcceptsTheBounds) {
  EXPECT_TRUE(ValidateTableSpec(MakeSpec("t", 1, 1)).ok());
  EXPECT_TRUE(ValidateTableSpec(MakeSpec(std::string(128, 'n'), kMaxRows, kMaxDim)).ok());
  v1::TableSpec spec = MakeSpec("t", kMaxInt32Rows, 1);
  spec.set_id_type(v1::ID_TYPE_INT32);
  EXPECT_TRUE(ValidateTableSpec(spec).ok());
}

struct FaultCase {
  std::string field;
  std::function<void(v1::TableSpec&)> make;
};

std::vector<FaultCase> FaultCases() {
  std::vector<FaultCase> cases = {
      {"name", [](auto& s) { s.set_name(""); }},
      {"name", [](auto& s) { s.set_name(std::string(129, 'n')); }},
      {"name", [](auto& s) { s.set_name("a\nb"); }},
      {"namespace", [](auto& s) { s.set_namespace_(std::string(129, 'n')); }},
      {"namespace", [](auto& s) { s.set_namespace_("a/b"); }},
      {"row_count", [](auto& s) { s.set_row_count(0); }},
      {"row_count", [](auto& s) { s.set_row_count(-1); }},
      {"row_count", [](auto& s) { s.set_row_count(kMaxRows + 1); }},
      {"dim", [](auto& s) { s.set_dim(0); }},
      {"dim", [](auto& s) { s.set_dim(-5); }},
      {"dim", [](auto& s) { s.set_dim(kMaxDim + 1); }},
      {"row_type", [](auto& s) { s.set_row_type(static_cast<v1::DataType>(99)); }},
      {"id_type", [](auto& s) { s.set_id_type(static_cast<v1::IdType>(99)); }},
      {"sharding_type", [](auto& s) { s.set_sharding_type(static_cast<v1::ShardingType>(99)); }},
      {"optimizer.type", [](auto& s) { s.mutable_optimizer()->set_type(static_cast<v1::OptimizerType>(99)); }},
      {"optimizer.weight_decay_mode",
       [](auto& s) { s.mutable_optimizer()->set_weight_decay_mode(static_cast<v1::WeightDecayMode>(99)); }},
      {"initializer.kind", [](auto& s) { s.mutable_initializer()->set_kind(static_cast<v1::InitializerKind>(99)); }},
      {"initializer.kind", [](auto& s) { s.mutable_initializer()->set_b(0.5f); }},
      {"initializer.a", [](auto& s) { s.mutable_initializer()->set_a(kNan); }},
      {"initializer.b", [](auto& s) { s.mutable_initializer()->set_b(kInf); }},
  };
  for (const float bad : {kNan, kInf, -1.0f}) {
    cases.push_back({"optimizer.learning_rate", [bad](auto& s) { s.mutable_optimizer()->set_learning_rate(bad); }});
    cases.push_back({"optimizer.weight_decay", [bad](auto& s) { s.mutable_optimizer()->set_weight_decay(bad); }});
    cases.push_back({"optimizer.max_gradient", [bad](auto& s) { s.mutable_optimizer()->set_max_gradient(bad); }});
    cases.push_back({"optimizer.max_norm", [bad](auto& s) { s.mutable_optimizer()->set_max_norm(bad); }});
  }
  for (const float bad : {kNan, kInf, -1.0f, 0.0f}) {
    cases.push_back({"optimizer.eps", [bad](auto& s) { s.mutable_optimizer()->set_eps(bad); }});
    cases.push_back({"optimizer.eta", [bad](auto& s) { s.mutable_optimizer()->set_eta(bad); }});
  }
  for (const float bad : {kNan, kInf, -0.1f, 1.0f}) {
    cases.push_back({"optimizer.beta1", [bad](auto& s) { s.mutable_optimizer()->set_beta1(bad); }});
    cases.push_back({"optimizer.beta2", [bad](auto& s) { s.mutable_optimizer()->set_beta2(bad); }});
    cases.push_back({"optimizer.momentum", [bad](auto& s) { s.mutable_optimizer()->set_momentum(bad); }});
  }
  return cases;
}

TEST(TableSpecTest, EachFaultIsRefusedByName) {
  for (const FaultCase& fault : FaultCases()) {
    v1::TableSpec spec = MakeSpec("t", 100, 8);
    fault.make(spec);
    const absl::Status status = ValidateTableSpec(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fault.field;
    EXPECT_EQ(ReasonOf(status), Reason::kMalformed);
    EXPECT_THAT(std::string(status.message()), HasSubstr(fault.field + ": "));
  }
}

TEST(TableSpecTest, ListsAllFaultsAtOnce) {
  v1::TableSpec spec = MakeSpec("clicks", 0, 5000);
  spec.mutable_optimizer()->set_eps(0);
  spec.mutable_initializer()->set_kind(v1::INITIALIZER_KIND_UNIFORM);
  spec.mutable_initializer()->set_a(1);
  spec.mutable_initializer()->set_b(-1);
  EXPECT_EQ(ValidateTableSpec(spec).message(),
            "table 'clicks': row_count: 0, must be 1 to 2^47; dim: 5000, must be 1 to 4096; optimizer.eps: 0, must be "
            "finite and > 0; initializer.b: -1, must be >= initializer.a, which is 1");
}

TEST(TableSpecTest, N13_IdWidthIsCheckedAgainstRowsWhenTheTableIsMade) {
  v1::TableSpec spec = MakeSpec("t", kMaxInt32Rows + 1, 1);
  EXPECT_TRUE(ValidateTableSpec(spec).ok());
  spec.set_id_type(v1::ID_TYPE_INT32);
  EXPECT_THAT(std::string(ValidateTableSpec(spec).message()), HasSubstr("id_type: INT32 reaches 2^31 rows only"));
  EXPECT_EQ(IdBytes(v1::ID_TYPE_INT32), 4);
  EXPECT_EQ(IdBytes(v1::ID_TYPE_INT64), 8);
  EXPECT_EQ(IdBytes(v1::ID_TYPE_UNSPECIFIED), 8);
}

TEST(TableSpecTest, NormalFormFillsEveryDefault) {
  const v1::TableSpec spec = NormalizeTableSpec(MakeSpec("t", 400, 8, v1::OPTIMIZER_TYPE_UNSPECIFIED));
  EXPECT_EQ(spec.namespace_(), "default");
  EXPECT_EQ(spec.row_type(), v1::DATA_TYPE_FP32);
  EXPECT_EQ(spec.id_type(), v1::ID_TYPE_INT64);
  EXPECT_EQ(spec.sharding_type(), v1::SHARDING_TYPE_UNSPECIFIED);
  const v1::OptimizerSpec& optimizer = spec.optimizer();
  EXPECT_EQ(optimizer.type(), v1::OPTIMIZER_TYPE_SGD);
  EXPECT_EQ(optimizer.weight_decay_mode(), v1::WEIGHT_DECAY_MODE_NONE);
  EXPECT_EQ(optimizer.learning_rate(), 0.01f);
  EXPECT_EQ(optimizer.eps(), 1e-8f);
  EXPECT_EQ(optimizer.beta1(), 0.9f);
  EXPECT_EQ(optimizer.beta2(), 0.999f);
  EXPECT_EQ(optimizer.eta(), 0.001f);
  EXPECT_EQ(optimizer.momentum(), 0.9f);
  EXPECT_TRUE(optimizer.has_weight_decay());
  EXPECT_EQ(optimizer.weight_decay(), 0.0f);
  EXPECT_TRUE(ValidateTableSpec(spec).ok());
  EXPECT_EQ(NormalizeTableSpec(spec).SerializeAsString(), spec.SerializeAsString());
}

TEST(TableSpecTest, S22_DefaultInitialRowsAreUniformWithinTheRootOfOneOverR) {
  const v1::TableSpec spec = NormalizeTableSpec(MakeSpec("t", 400, 8));
  EXPECT_EQ(spec.initializer().kind(), v1::INITIALIZER_KIND_UNIFORM);
  EXPECT_EQ(spec.initializer().a(), -0.05f);
  EXPECT_EQ(spec.initializer().b(), 0.05f);
}

TEST(TableSpecTest, ExplicitZeroIsNotTheDefault) {
  v1::TableSpec zero = MakeSpec("t", 10, 4);
  zero.mutable_optimizer()->set_learning_rate(0);
  EXPECT_FALSE(SpecsEqual(MakeSpec("t", 10, 4), zero));
  EXPECT_EQ(NormalizeTableSpec(zero).optimizer().learning_rate(), 0.0f);
}

TEST(TableSpecTest, SpecsThatMeanTheSameAreEqual) {
  v1::TableSpec spelled_out = MakeSpec("t", 10, 4);
  spelled_out.set_namespace_("default");
  spelled_out.mutable_optimizer()->set_learning_rate(0.01f);
  spelled_out.mutable_optimizer()->set_max_norm(-0.0f);
  spelled_out.set_row_type(v1::DATA_TYPE_FP32);
  EXPECT_TRUE(SpecsEqual(MakeSpec("t", 10, 4), spelled_out));
  EXPECT_EQ(DescribeSpecDifference(MakeSpec("t", 10, 4), spelled_out), "");

  v1::TableSpec constant = MakeSpec("t", 10, 4);
  constant.mutable_initializer()->set_kind(v1::INITIALIZER_KIND_CONSTANT);
  v1::TableSpec with_unused_b = constant;
  with_unused_b.mutable_initializer()->set_b(3);
  EXPECT_TRUE(SpecsEqual(constant, with_unused_b));
}

TEST(TableSpecTest, DifferencesNameFieldAndBothValues) {
  const v1::TableSpec stored = MakeSpec("t", 10, 4);
  v1::TableSpec requested = MakeSpec("t", 10, 8, v1::OPTIMIZER_TYPE_ADAM);
  requested.mutable_optimizer()->set_eps(1e-6f);
  requested.set_nearest_rounding(true);
  requested.mutable_initializer()->set_seed(7);
  EXPECT_FALSE(SpecsEqual(stored, requested));
  EXPECT_EQ(DescribeSpecDifference(stored, requested),
            "dim: stored 4, requested 8; optimizer.type: stored OPTIMIZER_TYPE_SGD, requested OPTIMIZER_TYPE_ADAM; "
            "optimizer.eps: stored 9.99999994e-09, requested 9.99999997e-07; initializer.seed: stored 0, requested 7; "
            "nearest_rounding: stored false, requested true");
}

TEST(TableSpecTest, S18_BytesPerRowAreThoseOfRowsAndState) {
  v1::TableSpec spec = MakeSpec("t", 10, 6, v1::OPTIMIZER_TYPE_ADAM);
  EXPECT_EQ(RowBytes(spec, 6), 24);
  EXPECT_EQ(StateBytesPerRow(spec, 6), 48);
  spec.set_row_type(v1::DATA_TYPE_FP16);
  EXPECT_EQ(RowBytes(spec, 6), 12);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_LAMB);
  EXPECT_EQ(StateBytesPerRow(spec, 3), 16);
  spec.mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD);
  EXPECT_EQ(StateBytesPerRow(spec, 6), 4);
  EXPECT_EQ(StateBytesPerRow(MakeSpec("t", 10, 1), 1), 0);
}

TEST(TableSpecTest, RowNormsAreThoseOfTheContract) {
  for (const auto type : {v1::OPTIMIZER_TYPE_SGD, v1::OPTIMIZER_TYPE_ADAGRAD, v1::OPTIMIZER_TYPE_ADAM}) {
    v1::OptimizerSpec optimizer;
    optimizer.set_type(type);
    EXPECT_FALSE(HasRowNorm(optimizer)) << ShortName(type);
    optimizer.set_max_norm(1);
    EXPECT_TRUE(HasRowNorm(optimizer)) << ShortName(type);
  }
  for (const auto type :
       {v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD, v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM, v1::OPTIMIZER_TYPE_LAMB,
        v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_LAMB, v1::OPTIMIZER_TYPE_LARS_SGD}) {
    v1::OptimizerSpec optimizer;
    optimizer.set_type(type);
    EXPECT_TRUE(HasRowNorm(optimizer)) << ShortName(type);
  }
}

TEST(TableSpecTest, ShortNamesDropThePrefix) {
  EXPECT_EQ(ShortName(v1::SHARDING_TYPE_TABLE_ROW_WISE), "TABLE_ROW_WISE");
  EXPECT_EQ(ShortName(v1::DATA_TYPE_BF16), "BF16");
  EXPECT_EQ(ShortName(v1::POOLING_UNSPECIFIED), "UNSPECIFIED");
  EXPECT_EQ(ShortName(v1::WEIGHT_DECAY_MODE_L2), "L2");
  EXPECT_EQ(ShortName(v1::INITIALIZER_KIND_NORMAL), "NORMAL");
  EXPECT_EQ(ShortName(v1::ID_TYPE_INT32), "INT32");
  EXPECT_EQ(ShortName(static_cast<v1::OptimizerType>(77)), "77");
}

TEST(TableSpecTest, NamesOfRequestsAreCheckedByTheSameRules) {
  EXPECT_TRUE(ValidateNamespace("namespace", "").ok());
  EXPECT_TRUE(ValidateTableName("name", "a/b").ok());
  EXPECT_EQ(ValidateTableName("name", "").message(), "name: must not be empty");
  EXPECT_THAT(std::string(ValidateNamespace("namespace", std::string(200, 'x')).message()),
              AllOf(HasSubstr("200 bytes"), HasSubstr("at most 128")));
}

}  // namespace
}  // namespace embps::plan
