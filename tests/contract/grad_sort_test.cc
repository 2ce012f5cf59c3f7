// grad_sort and distinct_rows. A plan's layout is private to its backend, so order is observed through what
// reduce_update makes of it: SGD with lr -1 on zero rows leaves the canonical sum of the gradients in the row.
#include <set>

#include "tests/contract/backend_contract.h"
#include "tests/contract/canonical_update.h"

namespace embps::testing {
namespace {

std::vector<int64_t> SortedDistinct(const std::vector<int64_t>& ids) {
  const std::set<int64_t> distinct(ids.begin(), ids.end());
  return {distinct.begin(), distinct.end()};
}

// A case to be sorted only, on a table without memory.
UpdateCase SortOnly(int64_t row_count, const Bags& bags, bool weighted) {
  UpdateOptions options;
  options.row_count = row_count;
  options.stored_rows = 0;
  options.dim = 1;
  options.weighted = weighted;
  return UpdateCase(options, bags);
}

TEST_P(BackendContract, DistinctRowsAreAscendingAtEveryTableSize) {
  for (const int64_t row_count :
       {int64_t{1}, int64_t{2}, int64_t{97}, int64_t{4096}, int64_t{4097}, int64_t{600000}, int64_t{1} << 24,
        (int64_t{1} << 31) + 5, (int64_t{1} << 40) + 17, int64_t{1} << 47}) {
    for (const bool weighted : {false, true}) {
      for (const std::vector<int64_t>& lengths :
           {AwkwardLengths(), std::vector<int64_t>(700, 9), std::vector<int64_t>{5}}) {
        SCOPED_TRACE(::testing::Message()
                     << "R " << row_count << ", weighted " << weighted << ", B " << lengths.size());
        UpdateCase update = SortOnly(row_count, MakeBags(lengths, row_count, 5), weighted);
        for (const int workers : kWorkerCounts) {
          ASSERT_EQ(update.DistinctRows(*Make(workers)), SortedDistinct(update.bags.ids));
        }
      }
    }
  }
}

TEST_P(BackendContract, IdsNear2To40SortOnASparseTable) {
  constexpr int64_t kBase = int64_t{1} << 40;
  Bags bags;
  bags.offsets = {0};
  for (int64_t slot = 0; slot < 3000; ++slot) {
    for (const int64_t id : {kBase - 1 - slot % 7, kBase + slot * 1000003 % 5000, slot % 3}) bags.ids.push_back(id);
    bags.offsets.push_back(static_cast<int64_t>(bags.ids.size()));
  }
  bags.weights.assign(bags.ids.size(), 1.0f);
  for (const bool weighted : {false, true}) {
    UpdateCase update = SortOnly((int64_t{1} << 40) + 5000, bags, weighted);
    EXPECT_EQ(update.DistinctRows(*Make()), SortedDistinct(bags.ids));
  }
}

// Gradients of very different size: any other order of a row's occurrences gives other bits.
TEST_P(BackendContract, OccurrencesOfARowKeepTheirOrder) {
  for (const bool weighted : {false, true}) {
    for (const int64_t row_count : {int64_t{5}, int64_t{3000}, int64_t{200000}}) {
      UpdateOptions options;
      options.optimizer = TestOptimizer(kernels::OptimizerType::kSgd, kernels::WeightDecayMode::kNone, 1);
      options.optimizer.learning_rate = -1.0f;
      options.dim = 3;
      options.row_count = row_count;
      options.weighted = weighted;
      UpdateCase update(options, MakeBags(std::vector<int64_t>(2000, 11), row_count, 9));
      for (int64_t i = 0; i < update.grads.size(); ++i) update.grads[i] *= i % 3 == 0 ? 4096.0f : 0.001f;
      const CanonicalResult expected = CanonicalUpdate(update);
      for (const int workers : kWorkerCounts) {
        update.FillTable();
        update.Run(*Make(workers));
        ASSERT_TRUE(update.Snapshot() == expected.table) << "R " << row_count << ", workers " << workers;
      }
    }
  }
}

TEST_P(BackendContract, N22_N4_EmptyPlansAreANoOp) {
  for (const int64_t slots : {0, 4}) {
    UpdateOptions options;
    options.optimizer = TestOptimizer(kernels::OptimizerType::kAdam, kernels::WeightDecayMode::kNone, 1);
    Bags bags;
    bags.offsets.assign(slots + 1, 0);
    UpdateCase update(options, bags);
    const TableBytes before = update.Snapshot();
    update.Run(*Make());
    EXPECT_TRUE(update.Snapshot() == before);
    EXPECT_EQ(update.counts.rows_updated, 0);
    EXPECT_TRUE(update.DistinctRows(*Make()).empty());
  }
  const std::unique_ptr<kernels::Backend> backend = Make();
  EXPECT_TRUE(RunAndWait(*backend, [](kernels::Backend& b, kernels::Stream& stream) {
                b.GradSort({}, stream);
                b.DistinctRows({}, stream);
                b.GradPrepare({}, stream);
                b.ReduceUpdate({}, stream);
              }).ok());
}

}  // namespace
}  // namespace embps::testing
