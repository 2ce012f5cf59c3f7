#include "server/table/table_kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "proto/plan/table_spec.h"

namespace embps {
namespace {

v1::TableSpec Spec() {
  v1::TableSpec spec;
  spec.set_name("users");
  spec.set_row_count(100);
  spec.set_dim(4);
  return plan::NormalizeTableSpec(spec);
}

// From 0.9 and 0.999 as the user wrote them, not from the floats nearest to them: 1 - 0.999f alone is 1.3e-5 off.
TEST(TableKernels, BiasCorrectionsAreComputedInDoubleAndRoundedOnce) {
  for (const int64_t step : {int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{1} << 40}) {
    const kernels::Optimizer optimizer = KernelOptimizer(Spec().optimizer(), 0.5f, step);
    EXPECT_EQ(optimizer.bias_correction1, static_cast<float>(1.0 - std::pow(0.9, static_cast<double>(step))));
    EXPECT_EQ(optimizer.bias_correction2, static_cast<float>(1.0 - std::pow(0.999, static_cast<double>(step))));
    EXPECT_EQ(optimizer.learning_rate, 0.5f);
  }
}

TEST(TableKernels, DefaultsAreThoseOfTheContract) {
  const kernels::Optimizer optimizer = KernelOptimizer(Spec().optimizer(), Spec().optimizer().learning_rate(), 1);
  EXPECT_EQ(optimizer.type, kernels::OptimizerType::kSgd);
  EXPECT_EQ(optimizer.learning_rate, 0.01f);
  EXPECT_EQ(optimizer.eps, 1e-8f);
  EXPECT_EQ(optimizer.eta, 0.001f);
  EXPECT_EQ(optimizer.momentum, 0.9f);
  EXPECT_EQ(optimizer.weight_decay, 0.0f);
}

TEST(TableKernels, S22_InitialRowsSpanPlusMinusTheRootOfOneOverRows) {
  const kernels::InitRowsTask task = KernelInitRows(Spec(), {}, 3, 7);
  EXPECT_EQ(task.kind, kernels::InitializerKind::kUniform);
  EXPECT_EQ(task.a, -0.1f);
  EXPECT_EQ(task.b, 0.1f);
  EXPECT_EQ(task.first_row, 3);
  EXPECT_EQ(task.count, 7);
}

TEST(TableKernels, KeysDependOnNameAndSeedNotOnTheNamespace) {
  v1::TableSpec spec = Spec(), other = Spec();
  other.set_namespace_("elsewhere");
  EXPECT_EQ(KernelRounding(spec, 1).key, KernelRounding(other, 1).key);
  other.mutable_initializer()->set_seed(1);
  EXPECT_NE(KernelRounding(spec, 1).key, KernelRounding(other, 1).key);
  EXPECT_NE(KernelRounding(spec, 1).key, KernelInitRows(spec, {}, 0, 1).key);
}

TEST(TableKernels, OnlyNarrowRowsRoundStochasticallyUnlessToldNotTo) {
  v1::TableSpec spec = Spec();
  EXPECT_FALSE(KernelRounding(spec, 5).stochastic);
  spec.set_row_type(v1::DATA_TYPE_BF16);
  EXPECT_TRUE(KernelRounding(spec, 5).stochastic);
  EXPECT_EQ(KernelRounding(spec, 5).step, 5u);
  spec.set_nearest_rounding(true);
  EXPECT_FALSE(KernelRounding(spec, 5).stochastic);
}

}  // namespace
}  // namespace embps
