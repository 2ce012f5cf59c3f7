// reduce_update: to the bit against the canonical order in plain fp32, and within tolerance against the oracle.
#include <cmath>
#include <limits>

#include "kernels/ref/ref_backend.h"
#include "tests/contract/backend_contract.h"
#include "tests/contract/canonical_update.h"
#include "tests/support/elements.h"
#include "tests/support/tolerances.h"

namespace embps::testing {
namespace {

using kernels::ElementType;
using kernels::Optimizer;
using kernels::OptimizerType;
using kernels::UpdateCounts;
using kernels::WeightDecayMode;

constexpr int32_t kDims[] = {1, 2, 3, 4, 7, 8, 16, 33, 64, 128, 200, 256, 300};
constexpr WeightDecayMode kDecayModes[] = {WeightDecayMode::kNone, WeightDecayMode::kL2, WeightDecayMode::kDecoupled};

void ExpectCounts(const UpdateCounts& actual, const UpdateCounts& expected) {
  EXPECT_EQ(actual.rows_updated, expected.rows_updated);
  EXPECT_EQ(actual.rows_overflowed, expected.rows_overflowed);
  EXPECT_EQ(actual.values_saturated, expected.values_saturated);
}

// Runs `update` with every worker count from the same table; each must leave the canonical bits.
void ExpectCanonicalFromEveryWorkerCount(UpdateCase& update,
                                         const std::function<std::unique_ptr<kernels::Backend>(int)>& make) {
  const CanonicalResult expected = CanonicalUpdate(update);
  for (const int workers : kWorkerCounts) {
    update.FillTable();
    update.Run(*make(workers));
    ASSERT_TRUE(update.Snapshot() == expected.table) << "workers " << workers;
    ExpectCounts(update.counts, expected.counts);
  }
}

// The same on `backend` and on the oracle, with sums that are exact in both. Rows start at about 1 and may be cancelled
// by their update, so the tolerance is relative to 1 at least. A 16-bit row may differ by one place, since fp32 and
// double can fall on two sides of a rounding.
void ExpectNearOracle(kernels::Backend& backend, UpdateOptions options, const Bags& bags) {
  options.exact_sums = true;
  UpdateCase update(options, bags), oracle(options, bags);
  update.Run(backend);
  oracle.Run(*kernels::ref::NewRefBackend());
  const ElementType type = options.type;
  const double place = type == ElementType::kFp32 ? 0 : type == ElementType::kFp16 ? 0x1p-10 : 0x1p-7;
  for (int64_t i = 0; i < options.row_count * options.dim; ++i) {
    const double wanted = GetElement(oracle.rows.data(), type, i);
    const double tolerance = OptimizerTolerance(std::max(std::abs(wanted), 1.0)) + place * std::abs(wanted);
    ASSERT_NEAR(GetElement(update.rows.data(), type, i), wanted, tolerance) << "element " << i;
  }
  for (int64_t i = 0; i < update.state0.size(); ++i) {
    const double tolerance = OptimizerTolerance(std::max(std::abs(double{oracle.state0[i]}), 0.1));
    ASSERT_NEAR(update.state0[i], oracle.state0[i], tolerance) << "state0 " << i;
  }
  for (int64_t i = 0; i < update.state1.size(); ++i) {
    ASSERT_NEAR(update.state1[i], oracle.state1[i], OptimizerTolerance(oracle.state1[i])) << "state1 " << i;
  }
  EXPECT_EQ(update.counts.rows_updated, oracle.counts.rows_updated);
  EXPECT_EQ(update.counts.rows_overflowed, oracle.counts.rows_overflowed);
}

TEST_P(BackendContract, N14_EveryOptimizerIsCanonicalAtEveryWidthAndType) {
  int turn = 0;
  for (const OptimizerType optimizer : kOptimizers) {
    for (const ElementType type : kElementTypes) {
      for (const int32_t dim : kDims) {
        ++turn;
        UpdateOptions options;
        options.optimizer = TestOptimizer(optimizer, kDecayModes[turn % 3], 1 + turn % 5);
        if (turn % 4 == 0) options.optimizer.max_norm = 0.7f * std::sqrt(static_cast<float>(dim));
        options.type = type;
        options.dim = dim;
        options.row_count = 97;
        options.weighted = turn % 2 == 0;
        options.stochastic = turn % 5 != 0;
        options.grad_padding = turn % 3;
        options.seed = static_cast<uint64_t>(turn);
        SCOPED_TRACE(::testing::Message() << "optimizer " << static_cast<int>(optimizer) << ", "
                                          << ElementTypeName(type) << ", D " << dim << ", turn " << turn);
        UpdateCase update(options, MakeBags(AwkwardLengths(), 97, options.seed));
        update.task.table.row_base = (int64_t{1} << 40) + 3;
        update.task.table.column_base = turn % 11;
        ExpectCanonicalFromEveryWorkerCount(update, [&](int workers) { return Make(workers); });
        ExpectNearOracle(*Make(), options, update.bags);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(BackendContract, S9_N19_OneBagOfThreeEqualsThreeBagsOfOne) {
  for (const OptimizerType type : kOptimizers) {
    UpdateOptions options;
    options.optimizer = TestOptimizer(type, WeightDecayMode::kNone, 1);
    options.dim = 33;
    Bags one, three;
    one.offsets = {0, 3};
    three.offsets = {0, 1, 2, 3};
    one.ids = three.ids = {5, 5, 5};
    UpdateCase together(options, one), apart(options, three);
    for (int64_t i = 0; i < apart.grads.size(); ++i) apart.grads[i] = together.grads[i % options.dim];
    const TableBytes before = together.Snapshot();
    together.Run(*Make());
    apart.Run(*Make());
    EXPECT_TRUE(together.Snapshot() == apart.Snapshot()) << static_cast<int>(type);
    EXPECT_FALSE(together.Snapshot() == before);
    EXPECT_EQ(apart.counts.rows_updated, 1);
  }
}

// What two ranks hold of one row in one step ends in one plan: the sum of both is applied, once.
TEST_P(BackendContract, F21_N19_GradientsOfOneRowFromTwoSourcesAreSummed) {
  UpdateOptions options;
  options.optimizer = TestOptimizer(OptimizerType::kSgd, WeightDecayMode::kNone, 1);
  options.optimizer.learning_rate = 1.0f;
  options.dim = 2;
  Bags bags;
  bags.offsets = {0, 2, 4};
  bags.ids = {7, 3, 9, 7};
  UpdateCase update(options, bags);
  std::memset(update.rows.data(), 0, update.rows.size());
  for (int j = 0; j < 2; ++j) {
    update.grads[j] = 0.5f;
    update.grads[2 + j] = 0.25f;
  }
  update.Run(*Make());
  const auto* rows = reinterpret_cast<const float*>(update.rows.data());
  EXPECT_EQ(rows[7 * 2], -0.75f);
  EXPECT_EQ(rows[3 * 2], -0.5f);
  EXPECT_EQ(rows[9 * 2 + 1], -0.25f);
  EXPECT_EQ(rows[0], 0.0f);
  EXPECT_EQ(update.counts.rows_updated, 3);
}

TEST_P(BackendContract, AHotRowIsSummedInChunksOf256) {
  for (const int64_t occurrences : {255, 256, 257, 512, 513, 40000}) {
    for (const bool weighted : {false, true}) {
      UpdateOptions options;
      options.optimizer = TestOptimizer(OptimizerType::kRowwiseAdagrad, WeightDecayMode::kNone, 1);
      options.dim = 20;
      options.row_count = 3;
      options.weighted = weighted;
      Bags bags = MakeBags(std::vector<int64_t>(occurrences / 2 + 3, 2), 3, 1);
      std::fill_n(bags.ids.begin(), occurrences, int64_t{1});
      UpdateCase update(options, bags);
      ExpectCanonicalFromEveryWorkerCount(update, [&](int workers) { return Make(workers); });
    }
  }
}

TEST_P(BackendContract, ManyTasksOfOneCallAreIndependent) {
  std::vector<std::unique_ptr<UpdateCase>> cases;
  std::vector<CanonicalResult> expected;
  std::vector<GuardedBuffer<uint8_t>> memory;
  std::vector<kernels::GradSortTask> sorts;
  std::vector<kernels::ReduceUpdateTask> updates;
  const std::unique_ptr<kernels::Backend> backend = Make(3);
  for (int i = 0; i < 12; ++i) {
    UpdateOptions options;
    options.optimizer = TestOptimizer(kOptimizers[i % 8], WeightDecayMode::kNone, 2);
    options.type = kElementTypes[i % 3];
    options.dim = kDims[i];
    options.row_count = 1 + 500 * i;
    const int64_t bag_count = i == 5 ? 6000 : i * 7;  // one task dominates
    cases.push_back(
        std::make_unique<UpdateCase>(options, MakeBags(std::vector<int64_t>(bag_count, 5), options.row_count, i)));
    UpdateCase& update = *cases.back();
    expected.push_back(CanonicalUpdate(update));
    memory.emplace_back(backend->GradPlanBytes(update.shape()));
    sorts.push_back(update.SortTask());
    sorts.back().plan = memory.back().data();
    update.task.plan = memory.back().data();
    memory.emplace_back(backend->GradSortWorkspaceBytes(update.shape()));
    sorts.back().workspace = memory.back().data();
    memory.emplace_back(backend->ReduceUpdateWorkspaceBytes(update.shape(), options.dim));
    update.task.workspace = memory.back().data();
    updates.push_back(update.task);
  }
  ASSERT_TRUE(RunAndWait(*backend, [&](kernels::Backend& b, kernels::Stream& stream) {
                b.GradSort(sorts, stream);
                b.ReduceUpdate(updates, stream);
              }).ok());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_TRUE(cases[i]->Snapshot() == expected[i].table) << "task " << i;
    ExpectCounts(cases[i]->counts, expected[i].counts);
  }
  for (const GuardedBuffer<uint8_t>& buffer : memory) EXPECT_TRUE(buffer.GuardsIntact());
}

// Row 0 gets a gradient that cannot be applied, row 1 an ordinary one.
UpdateCase OverflowCase(OptimizerType type, ElementType row_type, int32_t dim, float poison) {
  UpdateOptions options;
  options.optimizer = TestOptimizer(type, WeightDecayMode::kL2, 2);
  options.type = row_type;
  options.dim = dim;
  options.row_count = 2;
  Bags bags;
  bags.offsets = {0, 1, 2};
  bags.ids = {0, 1};
  UpdateCase update(options, bags);
  update.grads[dim - 1] = poison;
  return update;
}

TEST_P(BackendContract, RowsThatWouldOverflowAreUntouchedAndCounted) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const OptimizerType type : kOptimizers) {
    for (const ElementType row_type : kElementTypes) {
      for (const int32_t dim : {1, 7, 64, 200}) {
        for (const float poison : {1e20f, kInf, -kInf, std::nanf("")}) {
          if (type == OptimizerType::kSgd && std::isfinite(poison)) continue;  // squares nothing
          SCOPED_TRACE(::testing::Message() << "optimizer " << static_cast<int>(type) << ", "
                                            << ElementTypeName(row_type) << ", D " << dim << ", gradient " << poison);
          UpdateCase update = OverflowCase(type, row_type, dim, poison);
          const TableBytes before = update.Snapshot();
          update.Run(*Make());
          EXPECT_EQ(update.counts.rows_overflowed, 1);
          EXPECT_EQ(update.counts.rows_updated, 1);
          const TableBytes after = update.Snapshot();
          const auto first_row = [&](const auto& values) { return values.begin() + values.size() / 2; };
          EXPECT_TRUE(std::equal(before.rows.begin(), first_row(before.rows), after.rows.begin()));
          EXPECT_TRUE(std::equal(before.state0.begin(), first_row(before.state0), after.state0.begin()));
          EXPECT_TRUE(std::equal(before.state1.begin(), first_row(before.state1), after.state1.begin()));
          EXPECT_FALSE(std::equal(first_row(before.rows), before.rows.end(), first_row(after.rows)));
        }
      }
    }
  }
}

TEST_P(BackendContract, ASumThatOverflowsLeavesTheRowAlone) {
  UpdateOptions options;
  options.optimizer = TestOptimizer(OptimizerType::kSgd, WeightDecayMode::kNone, 1);
  options.dim = 1;
  options.row_count = 1;
  Bags bags;
  bags.offsets = {0, 2};
  bags.ids = {0, 0};
  UpdateCase update(options, bags);
  update.grads[0] = 3e38f;
  const TableBytes before = update.Snapshot();
  update.Run(*Make());
  EXPECT_TRUE(update.Snapshot() == before);
  EXPECT_EQ(update.counts.rows_overflowed, 1);
}

TEST_P(BackendContract, SixteenBitRowsSaturateAndCount) {
  for (const ElementType type : {ElementType::kFp16, ElementType::kBf16}) {
    for (const bool stochastic : {false, true}) {
      UpdateOptions options;
      options.optimizer.learning_rate = 1.0f;
      options.type = type;
      options.dim = 19;
      options.stochastic = stochastic;
      Bags bags;
      bags.offsets = {0, 1};
      bags.ids = {2};
      UpdateCase update(options, bags);
      const float huge = type == ElementType::kFp16 ? 1e6f : std::numeric_limits<float>::max();
      for (int64_t j = 0; j < 19; ++j) {
        update.grads[j] = j % 2 == 0 ? huge : -huge;
        SetElement(update.rows.data(), type, 2 * 19 + j, 0.0f);
      }
      if (type == ElementType::kBf16 && stochastic) continue;  // saturates by chance only, see the canonical cases
      update.Run(*Make());
      EXPECT_EQ(update.counts.values_saturated, 19);
      EXPECT_EQ(update.counts.rows_updated, 1);
      for (int64_t j = 0; j < 19; ++j) {
        const uint32_t largest = type == ElementType::kFp16 ? 0x7bff : 0x7f7f;
        EXPECT_EQ(ElementBits(update.rows.data(), type, 2 * 19 + j), largest | (j % 2 == 0 ? 0x8000u : 0u));
      }
    }
  }
}

// With arithmetic that is exact in fp32, the oracle's own generator and rounding must give the same bits.
TEST_P(BackendContract, RandomBitsAgreeWithTheOracle) {
  for (const ElementType type : {ElementType::kFp16, ElementType::kBf16}) {
    UpdateOptions options;
    options.optimizer.learning_rate = 0x1p-12f;
    options.type = type;
    options.dim = 77;
    options.row_count = 40;
    UpdateCase update(options, MakeBags(std::vector<int64_t>(60, 1), 40, 4));
    for (int64_t i = 0; i < update.grads.size(); ++i) update.grads[i] = static_cast<float>(i % 17 - 8) * 0.125f;
    UpdateCase oracle(options, update.bags);
    for (int64_t i = 0; i < update.grads.size(); ++i) oracle.grads[i] = update.grads[i];
    for (UpdateCase* c : {&update, &oracle}) {
      c->task.table.row_base = (int64_t{1} << 46) + 1;
      c->task.table.column_base = 13;
      c->task.rounding.step = (uint64_t{1} << 40) + 9;
    }
    update.Run(*Make());
    oracle.Run(*kernels::ref::NewRefBackend());
    EXPECT_TRUE(update.Snapshot() == oracle.Snapshot()) << ElementTypeName(type);
  }
}

// A thousand steps of a sixteenth of a place each: rounding to nearest would never move the row.
TEST_P(BackendContract, ManyTinyUpdatesAreUnbiased) {
  for (const ElementType type : {ElementType::kFp16, ElementType::kBf16}) {
    const float place = type == ElementType::kFp16 ? 0x1p-10f : 0x1p-7f;
    UpdateOptions options;
    options.optimizer.learning_rate = 1.0f;
    options.type = type;
    options.dim = 256;
    options.row_count = 1;
    Bags bags;
    bags.offsets = {0, 1};
    bags.ids = {0};
    UpdateCase update(options, bags);
    for (int64_t j = 0; j < 256; ++j) {
      update.grads[j] = (j % 2 == 0 ? -1.0f : 1.0f) * place / 16;
      SetElement(update.rows.data(), type, j, j % 2 == 0 ? 1.0f : -1.0f);
    }
    constexpr int kSteps = 480;
    const std::unique_ptr<kernels::Backend> backend = Make();
    for (int step = 1; step <= kSteps; ++step) {
      update.task.rounding.step = static_cast<uint64_t>(step);
      update.Run(*backend);
    }
    double mean = 0;
    for (int64_t j = 0; j < 256; ++j) mean += std::abs(GetElement(update.rows.data(), type, j)) / 256;
    // Each element walked kSteps / 16 places; the standard deviation of the mean is sqrt(kSteps * 15 / 256) / 16
    // places.
    EXPECT_NEAR(mean, 1.0 + kSteps / 16 * place, 5 * std::sqrt(kSteps * 15 / 256.0) / 16 * place);
  }
}

TEST_P(BackendContract, ZeroNormsGiveARatioOfOne) {
  for (const OptimizerType type : {OptimizerType::kLamb, OptimizerType::kPartialRowwiseLamb, OptimizerType::kLarsSgd}) {
    UpdateOptions options;
    options.optimizer = TestOptimizer(type, WeightDecayMode::kNone, 1);
    options.dim = 5;
    options.row_count = 1;
    Bags bags;
    bags.offsets = {0, 1};
    bags.ids = {0};
    UpdateCase update(options, bags);
    std::memset(update.rows.data(), 0, update.rows.size());
    for (float& value : update.state0.span()) value = 0;
    for (float& value : update.state1.span()) value = 0;
    update.Run(*Make());
    const auto* x = reinterpret_cast<const float*>(update.rows.data());
    for (int j = 0; j < 5; ++j) {
      const float g = update.grads[j];
      // LARS: lr*eta*g. LAMB at t = 1: lr*m/(sqrt(v)+eps) with m = g; one v per element, or per row.
      if (type == OptimizerType::kLarsSgd) {
        EXPECT_NEAR(x[j], -0.05 * 0.001 * g, 1e-9);
      } else if (type == OptimizerType::kLamb) {
        EXPECT_NEAR(x[j], g > 0 ? -0.05 : 0.05, 1e-6);
      }
      EXPECT_EQ(x[j]<0, g> 0);
    }
    // And a gradient of zero moves nothing.
    UpdateCase still(options, bags);
    std::memset(still.rows.data(), 0, still.rows.size());
    for (float& value : still.grads.span()) value = 0;
    for (float& value : still.state0.span()) value = 0;
    for (float& value : still.state1.span()) value = 0;
    const TableBytes before = still.Snapshot();
    still.Run(*Make());
    EXPECT_TRUE(still.Snapshot() == before);
    EXPECT_EQ(still.counts.rows_updated, 1);
  }
}

TEST_P(BackendContract, ALearningRateOfZeroStillAdvancesState) {
  for (const OptimizerType type : kOptimizers) {
    UpdateOptions options;
    options.optimizer = TestOptimizer(type, WeightDecayMode::kDecoupled, 1);
    options.optimizer.learning_rate = 0.0f;
    options.dim = 8;
    UpdateCase update(options, MakeBags({3, 2}, 10, 2));
    const TableBytes before = update.Snapshot();
    update.Run(*Make());
    const TableBytes after = update.Snapshot();
    if (type != OptimizerType::kLarsSgd) {  // whose momentum moves the row without a gradient
      EXPECT_EQ(after.rows, before.rows) << static_cast<int>(type);
    }
    if (update.widths.state0 > 0) {
      EXPECT_NE(after.state0, before.state0) << static_cast<int>(type);
    }
  }
}

TEST_P(BackendContract, MaxNormRescalesOnlyRowsBeyondIt) {
  UpdateOptions options;
  options.optimizer = TestOptimizer(OptimizerType::kSgd, WeightDecayMode::kNone, 1);
  options.optimizer.learning_rate = 0.0f;
  options.optimizer.max_norm = 2.5f;
  options.dim = 2;
  options.row_count = 2;
  Bags bags;
  bags.offsets = {0, 2};
  bags.ids = {0, 1};
  UpdateCase update(options, bags);
  auto* x = reinterpret_cast<float*>(update.rows.data());
  x[0] = 3.0f, x[1] = 4.0f, x[2] = 1.5f, x[3] = 2.0f;
  update.Run(*Make());
  EXPECT_EQ(x[0], 1.5f);
  EXPECT_EQ(x[1], 2.0f);
  EXPECT_EQ(x[2], 1.5f);  // 2.5 exactly: not beyond
  EXPECT_EQ(x[3], 2.0f);
}

}  // namespace
}  // namespace embps::testing
