// What columns cut under a norm over the row mean: each slice is a table of its own, with one norm and one state of the
// norm per row (numerics.md section 4).
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/plan_invariance_case.h"
#include "tests/support/test_cluster.h"

namespace embps::testing {
namespace {

constexpr int64_t kRows = 9;
constexpr int kSlices = 3;
constexpr int kWidth = 4;
constexpr int64_t kBags = 20;

TableConfig Config(std::string name, int32_t dim, OptimizerType type, float max_norm) {
  TableConfig config;
  config.spec.name = std::move(name);
  config.spec.row_count = kRows;
  config.spec.dim = dim;
  config.spec.optimizer.type = type;
  config.spec.optimizer.learning_rate = 0.1f;
  config.spec.optimizer.weight_decay = 0.01f;
  config.spec.optimizer.weight_decay_mode = WeightDecayMode::kL2;
  config.spec.optimizer.max_norm = max_norm;
  config.features = {"f"};
  return config;
}

// Columns [begin, begin + width) of rows of `from` elements.
std::vector<float> Columns(const std::vector<float>& rows, size_t from, size_t begin, size_t width) {
  std::vector<float> out;
  for (size_t row = 0; row * from < rows.size(); ++row) {
    for (size_t c = begin; c < begin + width; ++c) out.push_back(rows[row * from + c]);
  }
  return out;
}

class SlicesTest : public ::testing::TestWithParam<std::vector<int64_t>> {};

void PushTwice(Client& client, const std::vector<float>& grads) {
  KeyedJaggedTensor kjt{.keys = {"f"}};
  for (int64_t b = 0; b < kBags; ++b) kjt.lengths.push_back(1), kjt.values.push_back(b * b % kRows);
  for (int push = 0; push < 2; ++push) {
    const PushOutcome outcome = client.PushGrad(kjt, Gradients::Pooled(grads));
    ASSERT_TRUE(outcome.ok()) << outcome.status;
  }
}

TEST_P(SlicesTest, ASliceUnderANormIsATableOfItsOwn) {
  const TestCluster cluster(GetParam());
  const auto client = cluster.Connect();
  std::vector<int64_t> ids;
  for (int64_t row = 0; row < kRows; ++row) ids.push_back(row);
  Draw draw(1);
  std::vector<float> grads(kBags * kSlices * kWidth);
  for (float& grad : grads) grad = draw.Real(-1, 1);
  for (int optimizer = 0; optimizer < 8; ++optimizer) {
    const auto type = static_cast<OptimizerType>(optimizer);
    SCOPED_TRACE(std::string(Name(type)));
    const float max_norm = optimizer % 2 == 0 ? 0.5f : 0.0f;
    TableConfig cut = Config("cut", kSlices * kWidth, type, max_norm);
    cut.sharding.type = ShardingType::kColumnWise;
    cut.sharding.column_slices = kSlices;
    ASSERT_TRUE(client->CreateTables({cut}).ok());
    const auto initial = client->ReadRows("cut", ids);
    ASSERT_TRUE(initial.ok()) << initial.status();
    ASSERT_NO_FATAL_FAILURE(PushTwice(*client, grads));
    const auto whole = client->ReadRows("cut", ids, /*with_state=*/true);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(*client->DropTable("cut"));
    for (size_t s = 0; s < kSlices; ++s) {
      SCOPED_TRACE(absl::StrCat("slice ", s));
      ASSERT_TRUE(client->CreateTables({Config("slice", kWidth, type, max_norm)}).ok());
      ASSERT_TRUE(client
                      ->WriteRows("slice", {.ids = ids,
                                            .values = Columns(initial->values, kSlices * kWidth, s * kWidth, kWidth)})
                      .ok());
      ASSERT_NO_FATAL_FAILURE(PushTwice(*client, Columns(grads, kSlices * kWidth, s * kWidth, kWidth)));
      const auto slice = client->ReadRows("slice", ids, /*with_state=*/true);
      ASSERT_TRUE(slice.ok()) << slice.status();
      EXPECT_EQ(slice->values, Columns(whole->values, kSlices * kWidth, s * kWidth, kWidth));
      EXPECT_EQ(slice->step, whole->step);
      const auto width0 = static_cast<size_t>(slice->state0_width), width1 = static_cast<size_t>(slice->state1_width);
      if (width0 > 0) {
        EXPECT_EQ(slice->state0, Columns(whole->state0, kSlices * width0, s * width0, width0));
      }
      if (width1 > 0) {
        EXPECT_EQ(slice->state1, Columns(whole->state1, kSlices * width1, s * width1, width1));
      }
      ASSERT_TRUE(*client->DropTable("slice"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, SlicesTest, ::testing::Values(std::vector<int64_t>{1}, std::vector<int64_t>{2, 2}),
                         [](const auto& info) { return absl::StrCat(info.param.size(), "x", info.param[0]); });

}  // namespace
}  // namespace embps::testing
