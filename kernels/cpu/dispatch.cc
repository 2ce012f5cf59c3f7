#include "kernels/cpu/dispatch.h"

#include <cstdint>

#include "hwy/targets.h"

namespace embps::kernels::cpu {
namespace {

// Best first. The last is Highway's fallback, which runs on every CPU.
constexpr int64_t kCompiled[] = {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_STATIC_TARGET};

int64_t CpuTargets() {
  static const int64_t targets = hwy::SupportedTargets() | HWY_STATIC_TARGET;
  return targets;
}

int64_t forced_target = 0;  // written while no kernel runs

}  // namespace

std::vector<std::string> DispatchTargets() {
  std::vector<std::string> names;
  for (const int64_t target : kCompiled) {
    if (CpuTargets() & target) names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

std::string CurrentDispatchTarget() {
  return forced_target != 0 ? hwy::TargetName(forced_target) : DispatchTargets().front();
}

bool ForceDispatchTarget(absl::string_view name) {
  CpuTargets();  // asked before the override below changes the answer
  if (name.empty()) {
    if (forced_target == 0) return true;
    forced_target = 0;
    hwy::GetChosenTarget().Update(CpuTargets());
    return true;
  }
  for (const int64_t target : kCompiled) {
    if (name != hwy::TargetName(target) || !(CpuTargets() & target)) continue;
    forced_target = target;
    hwy::GetChosenTarget().Update(target);
    return true;
  }
  return false;
}

}  // namespace embps::kernels::cpu
