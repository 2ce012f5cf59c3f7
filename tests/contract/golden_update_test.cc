// The golden numbers of numerics.md section 6 (tests/golden/optimizers.txt), both steps, on each backend and the
// oracle.
#include <fstream>
#include <map>
#include <sstream>

#include "kernels/api/optimizer_step.h"
#include "kernels/ref/ref_backend.h"
#include "tests/contract/backend_contract.h"
#include "tests/contract/update_case.h"
#include "tests/support/elements.h"

namespace embps::testing {
namespace {

using kernels::OptimizerType;
using kernels::WeightDecayMode;

constexpr int kDim = 4;
constexpr float kGradients[2][kDim] = {{0.1f, -0.2f, 0.3f, -0.4f}, {-0.3f, 0.1f, 0.2f, 0.4f}};

const std::map<std::string, OptimizerType> kTypes = {{"SGD", OptimizerType::kSgd},
                                                     {"ADAGRAD", OptimizerType::kAdagrad},
                                                     {"ROWWISE_ADAGRAD", OptimizerType::kRowwiseAdagrad},
                                                     {"ADAM", OptimizerType::kAdam},
                                                     {"PARTIAL_ROWWISE_ADAM", OptimizerType::kPartialRowwiseAdam},
                                                     {"LAMB", OptimizerType::kLamb},
                                                     {"PARTIAL_ROWWISE_LAMB", OptimizerType::kPartialRowwiseLamb},
                                                     {"LARS_SGD", OptimizerType::kLarsSgd}};
const std::map<std::string, WeightDecayMode> kModes = {
    {"NONE", WeightDecayMode::kNone}, {"L2", WeightDecayMode::kL2}, {"DECOUPLED", WeightDecayMode::kDecoupled}};

struct GoldenCase {
  std::string name, mode;
  float weight_decay = 0;
  int slices = 1;
  std::map<std::string, std::vector<double>> expected;  // row1, row2, state0, state1
};

std::vector<GoldenCase> ReadGoldenCases() {
  std::ifstream file(EMBPS_GOLDEN_DIR "/optimizers.txt");
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    if (!(words >> kind) || kind[0] == '#') continue;
    if (kind == "case") {
      cases.emplace_back();
      words >> cases.back().name >> cases.back().mode >> cases.back().weight_decay >> cases.back().slices;
    } else {
      for (double value = 0; words >> value;) cases.back().expected[kind].push_back(value);
    }
  }
  return cases;
}

// One column slice of the golden row.
UpdateCase MakeSlice(const GoldenCase& golden, int slice) {
  UpdateOptions options;
  options.optimizer.type = kTypes.at(golden.name);
  options.optimizer.learning_rate = 0.1f;
  options.optimizer.weight_decay = golden.weight_decay;
  options.optimizer.weight_decay_mode = kModes.at(golden.mode);
  options.dim = kDim / golden.slices;
  options.row_count = 1;
  options.grad_padding = kDim - options.dim;
  Bags bags;
  bags.offsets = {0, 1};
  bags.ids = {0};
  UpdateCase update(options, bags);
  for (int j = 0; j < options.dim; ++j) {
    SetElement(update.rows.data(), options.type, j, static_cast<float>(slice * options.dim + j + 1));
  }
  for (float& value : update.state0.span()) value = 0;
  for (float& value : update.state1.span()) value = 0;
  update.task.table.column_base = slice * options.dim;
  return update;
}

void ExpectNear(absl::Span<const float> actual, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-5 * std::abs(expected[i])) << what << " " << i;
  }
}

std::vector<double> Slice(const std::vector<double>& all, int slice, int slices) {
  const size_t width = all.size() / slices;
  return {all.begin() + slice * width, all.begin() + (slice + 1) * width};
}

void RunGolden(kernels::Backend& backend) {
  const std::vector<GoldenCase> cases = ReadGoldenCases();
  ASSERT_EQ(cases.size(), 11u);
  for (const GoldenCase& golden : cases) {
    for (int slice = 0; slice < golden.slices; ++slice) {
      SCOPED_TRACE(::testing::Message() << golden.name << " " << golden.mode << ", slice " << slice);
      UpdateCase update = MakeSlice(golden, slice);
      for (int step = 1; step <= 2; ++step) {
        const std::string row = "row" + std::to_string(step);
        if (!golden.expected.contains(row)) continue;
        for (int j = 0; j < update.options.dim; ++j)
          update.grads[j] = kGradients[step - 1][slice * update.options.dim + j];
        kernels::SetBiasCorrections(step, update.task.optimizer);
        update.Run(backend);
        ExpectNear({reinterpret_cast<const float*>(update.rows.data()), static_cast<size_t>(update.options.dim)},
                   Slice(golden.expected.at(row), slice, golden.slices), row.c_str());
        if (step == 2) continue;
        if (update.widths.state0 > 0) {
          ExpectNear(update.state0.span(), Slice(golden.expected.at("state0"), slice, golden.slices), "state0");
        }
        if (update.widths.state1 > 0) {
          ExpectNear(update.state1.span(), Slice(golden.expected.at("state1"), slice, golden.slices), "state1");
        }
      }
    }
  }
}

TEST_P(BackendContract, GoldenNumbersOfTheOptimizers) { RunGolden(*Make()); }

TEST(Oracle, GoldenNumbersOfTheOptimizers) { RunGolden(*kernels::ref::NewRefBackend()); }

}  // namespace
}  // namespace embps::testing
