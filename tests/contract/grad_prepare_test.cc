#include <cmath>
#include <limits>

#include "tests/contract/backend_contract.h"
#include "tests/support/guarded_buffer.h"

namespace embps::testing {
namespace {

using kernels::GradPrepareTask;

void Execute(kernels::Backend& backend, const GradPrepareTask& task) {
  ASSERT_TRUE(
      RunAndWait(backend, [&](kernels::Backend& b, kernels::Stream& stream) { b.GradPrepare({task}, stream); }).ok());
}

float Prepared(const GradPrepareTask& task, int64_t slot, float g) {
  g = g * task.scale;
  if (task.max_gradient > 0)
    g = g > task.max_gradient ? task.max_gradient : g < -task.max_gradient ? -task.max_gradient : g;
  if (task.divisors != nullptr && task.divisors[slot] > 1) g = g / static_cast<float>(task.divisors[slot]);
  return g;
}

TEST_P(BackendContract, GradPrepareScalesThenClampsThenDivides) {
  for (const int32_t dim : {1, 2, 3, 7, 16, 33, 64, 300}) {
    for (const float scale : {1.0f, 0.3f}) {
      for (const float limit : {0.0f, 0.5f}) {
        for (const bool divide : {false, true}) {
          constexpr int64_t kSlots = 600;
          std::vector<int64_t> divisors;
          for (int64_t slot = 0; slot < kSlots; ++slot) divisors.push_back(slot % 5);
          for (const int workers : kWorkerCounts) {
            GuardedBuffer<float> grads(kSlots * dim);
            for (int64_t i = 0; i < grads.size(); ++i) grads[i] = std::sin(static_cast<float>(i)) * 3.0f;
            const std::vector<float> before = grads.ToVector();
            const GradPrepareTask task = {.grads = grads.data(),
                                          .slot_count = kSlots,
                                          .dim = dim,
                                          .scale = scale,
                                          .max_gradient = limit,
                                          .divisors = divide ? divisors.data() : nullptr};
            Execute(*Make(workers), task);
            for (int64_t i = 0; i < grads.size(); ++i) {
              ASSERT_EQ(grads[i], Prepared(task, i / dim, before[i])) << "element " << i << ", D " << dim;
            }
            ASSERT_TRUE(grads.GuardsIntact());
          }
        }
      }
    }
  }
}

TEST_P(BackendContract, GradPrepareKeepsNaNAndClampsInf) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  GuardedBuffer<float> grads(std::vector<float>{std::nanf(""), kInf, -kInf, 1.0f, std::nanf("")});
  Execute(*Make(), {.grads = grads.data(), .slot_count = 1, .dim = 5, .max_gradient = 2.0f});
  EXPECT_TRUE(std::isnan(grads[0]) && std::isnan(grads[4]));
  EXPECT_EQ(grads[1], 2.0f);
  EXPECT_EQ(grads[2], -2.0f);
  EXPECT_EQ(grads[3], 1.0f);
}

}  // namespace
}  // namespace embps::testing
