#include "server/table/table_kernels.h"

#include "kernels/api/optimizer_step.h"
#include "kernels/api/random_key.h"
#include "proto/base/check.h"

namespace embps {
namespace {

kernels::WeightDecayMode KernelWeightDecayMode(v1::WeightDecayMode mode) {
  switch (mode) {
    case v1::WEIGHT_DECAY_MODE_L2:
      return kernels::WeightDecayMode::kL2;
    case v1::WEIGHT_DECAY_MODE_DECOUPLED:
      return kernels::WeightDecayMode::kDecoupled;
    default:
      return kernels::WeightDecayMode::kNone;
  }
}

kernels::InitializerKind KernelInitializerKind(v1::InitializerKind kind) {
  switch (kind) {
    case v1::INITIALIZER_KIND_NORMAL:
      return kernels::InitializerKind::kNormal;
    case v1::INITIALIZER_KIND_CONSTANT:
      return kernels::InitializerKind::kConstant;
    default:
      return kernels::InitializerKind::kUniform;
  }
}

uint64_t KeyOf(const v1::TableSpec& spec, kernels::RandomDomain domain) {
  return kernels::RandomKey(spec.name(), spec.initializer().seed(), domain);
}

}  // namespace

kernels::ElementType KernelElementType(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_FP16:
      return kernels::ElementType::kFp16;
    case v1::DATA_TYPE_BF16:
      return kernels::ElementType::kBf16;
    default:
      return kernels::ElementType::kFp32;
  }
}

kernels::OptimizerType KernelOptimizerType(v1::OptimizerType type) {
  switch (type) {
    case v1::OPTIMIZER_TYPE_ADAGRAD:
      return kernels::OptimizerType::kAdagrad;
    case v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD:
      return kernels::OptimizerType::kRowwiseAdagrad;
    case v1::OPTIMIZER_TYPE_ADAM:
      return kernels::OptimizerType::kAdam;
    case v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM:
      return kernels::OptimizerType::kPartialRowwiseAdam;
    case v1::OPTIMIZER_TYPE_LAMB:
      return kernels::OptimizerType::kLamb;
    case v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_LAMB:
      return kernels::OptimizerType::kPartialRowwiseLamb;
    case v1::OPTIMIZER_TYPE_LARS_SGD:
      return kernels::OptimizerType::kLarsSgd;
    default:
      return kernels::OptimizerType::kSgd;
  }
}

kernels::Optimizer KernelOptimizer(const v1::OptimizerSpec& spec, float learning_rate, int64_t step) {
  EMBPS_CHECK(step >= 1);
  kernels::Optimizer out;
  out.type = KernelOptimizerType(spec.type());
  out.learning_rate = learning_rate;
  out.eps = spec.eps();
  out.beta1 = spec.beta1();
  out.beta2 = spec.beta2();
  out.eta = spec.eta();
  out.momentum = spec.momentum();
  out.weight_decay = spec.weight_decay();
  out.weight_decay_mode = KernelWeightDecayMode(spec.weight_decay_mode());
  out.max_norm = spec.max_norm();
  kernels::SetBiasCorrections(step, out);
  return out;
}

kernels::Rounding KernelRounding(const v1::TableSpec& spec, int64_t step) {
  kernels::Rounding out;
  out.stochastic = spec.row_type() != v1::DATA_TYPE_FP32 && !spec.nearest_rounding();
  out.key = KeyOf(spec, kernels::RandomDomain::kRounding);
  out.step = static_cast<uint64_t>(step);
  return out;
}

kernels::InitRowsTask KernelInitRows(const v1::TableSpec& spec, const kernels::TableView& view, int64_t first_row,
                                     int64_t count) {
  kernels::InitRowsTask task;
  task.table = view;
  task.state_widths = kernels::StateWidthsOf(KernelOptimizerType(spec.optimizer().type()), view.dim);
  task.first_row = first_row;
  task.count = count;
  task.kind = KernelInitializerKind(spec.initializer().kind());
  task.a = spec.initializer().a();
  task.b = spec.initializer().b();
  task.key = KeyOf(spec, kernels::RandomDomain::kInitialRows);
  return task;
}

}  // namespace embps
