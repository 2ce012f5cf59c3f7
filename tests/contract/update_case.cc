#include "tests/contract/update_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/api/optimizer_step.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/elements.h"

namespace embps::testing {

kernels::Optimizer TestOptimizer(kernels::OptimizerType type, kernels::WeightDecayMode mode, int64_t t) {
  kernels::Optimizer optimizer;
  optimizer.type = type;
  optimizer.learning_rate = 0.05f;
  optimizer.weight_decay = 0.01f;
  optimizer.weight_decay_mode = mode;
  kernels::SetBiasCorrections(t, optimizer);
  return optimizer;
}

bool TableBytes::operator==(const TableBytes& other) const {
  const auto equal = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  };
  return rows == other.rows && equal(state0, other.state0) && equal(state1, other.state1);
}

namespace {
int64_t StoredRows(const UpdateOptions& options) {
  return options.stored_rows < 0 ? options.row_count : options.stored_rows;
}
}  // namespace

UpdateCase::UpdateCase(const UpdateOptions& o, Bags input)
    : options(o),
      bags(std::move(input)),
      widths(kernels::StateWidthsOf(o.optimizer.type, o.dim)),
      rows(StoredRows(o) * o.dim * kernels::ElementBytes(o.type)),
      state0(StoredRows(o) * widths.state0),
      state1(StoredRows(o) * widths.state1),
      grads(bags.bag_count() * (o.dim + o.grad_padding)) {
  std::mt19937 random(static_cast<uint32_t>(o.seed));
  for (int64_t slot = 0; slot < bags.bag_count(); ++slot) {
    for (int64_t j = 0; j < o.dim; ++j) {
      const auto drawn = static_cast<float>(static_cast<int64_t>(random() % 1301) - 300);  // mostly positive
      grads[slot * (o.dim + o.grad_padding) + j] = drawn / (o.exact_sums ? 1024.0f : 1000.0f);
    }
  }
  if (o.exact_sums) {
    for (float& weight : bags.weights) weight = 0.25f * (1.0f + std::round(4.0f * std::abs(weight)));
  }
  task.table.rows = rows.data();
  task.table.state0 = widths.state0 > 0 ? state0.data() : nullptr;
  task.table.state1 = widths.state1 > 0 ? state1.data() : nullptr;
  task.table.type = o.type;
  task.table.row_count = o.row_count;
  task.table.dim = o.dim;
  task.shape = shape();
  task.grads = grads.data();
  task.grad_stride = o.dim + o.grad_padding;
  task.optimizer = o.optimizer;
  task.rounding = {.stochastic = o.stochastic, .key = 0x1234567890abcdefu + o.seed, .step = 3};
  task.counts = &counts;
  FillTable();
}

void UpdateCase::FillTable() {
  std::mt19937 random(static_cast<uint32_t>(options.seed) + 1000);
  for (int64_t i = 0; i < StoredRows(options) * options.dim; ++i) {
    SetElement(rows.data(), options.type, i, static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
  }
  for (int64_t i = 0; i < state0.size(); ++i) state0[i] = static_cast<float>(random() % 1000) / 5000.0f;
  for (int64_t i = 0; i < state1.size(); ++i) state1[i] = static_cast<float>(random() % 1000) / 50000.0f;
  counts = {};
}

kernels::GradShape UpdateCase::shape() const {
  return {bags.id_count(), bags.bag_count(), options.row_count, options.weighted};
}

kernels::GradSortTask UpdateCase::SortTask() {
  kernels::GradSortTask sort;
  sort.ids = bags.ids.data();
  sort.id_count = bags.id_count();
  sort.offsets = bags.offsets.data();
  sort.slot_count = bags.bag_count();
  sort.row_count = options.row_count;
  sort.weights = options.weighted ? bags.weights.data() : nullptr;
  return sort;
}

void UpdateCase::Run(kernels::Backend& backend) {
  GuardedBuffer<uint8_t> plan(backend.GradPlanBytes(shape()));
  GuardedBuffer<uint8_t> sort_workspace(backend.GradSortWorkspaceBytes(shape()));
  GuardedBuffer<uint8_t> update_workspace(backend.ReduceUpdateWorkspaceBytes(shape(), options.dim));
  kernels::GradSortTask sort = SortTask();
  sort.plan = plan.data();
  sort.workspace = sort_workspace.data();
  task.plan = plan.data();
  task.workspace = update_workspace.data();
  task.counts = &counts;
  ASSERT_TRUE(RunAndWait(backend, [&](kernels::Backend& b, kernels::Stream& stream) {
                b.GradSort({sort}, stream);
                b.ReduceUpdate({task}, stream);
              }).ok());
  ASSERT_TRUE(plan.GuardsIntact() && sort_workspace.GuardsIntact() && update_workspace.GuardsIntact());
  ASSERT_TRUE(rows.GuardsIntact() && state0.GuardsIntact() && state1.GuardsIntact() && grads.GuardsIntact());
}

std::vector<int64_t> UpdateCase::DistinctRows(kernels::Backend& backend) {
  GuardedBuffer<uint8_t> plan(backend.GradPlanBytes(shape()));
  GuardedBuffer<uint8_t> workspace(backend.GradSortWorkspaceBytes(shape()));
  GuardedBuffer<int64_t> distinct(std::min(shape().id_count, shape().row_count));
  int64_t count = -1;
  kernels::GradSortTask sort = SortTask();
  sort.plan = plan.data();
  sort.workspace = workspace.data();
  const kernels::DistinctRowsTask list = {
      .shape = shape(), .plan = plan.data(), .rows = distinct.data(), .count = &count};
  EXPECT_TRUE(RunAndWait(backend, [&](kernels::Backend& b, kernels::Stream& stream) {
                b.GradSort({sort}, stream);
                b.DistinctRows({list}, stream);
              }).ok());
  EXPECT_TRUE(plan.GuardsIntact() && workspace.GuardsIntact() && distinct.GuardsIntact());
  return std::vector<int64_t>(distinct.data(), distinct.data() + count);
}

TableBytes UpdateCase::Snapshot() const { return {rows.ToVector(), state0.ToVector(), state1.ToVector()}; }

}  // namespace embps::testing
