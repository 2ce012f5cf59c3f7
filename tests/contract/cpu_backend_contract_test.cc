// The Backend contract on the CPU, once for each instruction set that this machine can run.
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/dispatch.h"
#include "proto/base/check.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/thread_for.h"

namespace embps::testing {
namespace {

std::unique_ptr<kernels::Backend> MakeCpu(const std::string& target, int workers) {
  static ThreadFor one(1), two(2), three(3);
  EMBPS_CHECK(workers >= 1 && workers <= 3);
  kernels::cpu::CpuBackendOptions options;
  options.parallel_for = workers == 1 ? &one : workers == 2 ? &two : &three;
  options.dispatch_target = target;
  return kernels::cpu::NewCpuBackend(options);
}

std::vector<BackendFactory> CpuFactories() {
  std::vector<BackendFactory> factories;
  for (const std::string& target : kernels::cpu::DispatchTargets()) {
    factories.push_back({target, [target](int workers) { return MakeCpu(target, workers); }});
  }
  return factories;
}

INSTANTIATE_TEST_SUITE_P(Cpu, BackendContract, ::testing::ValuesIn(CpuFactories()), FactoryName);

}  // namespace
}  // namespace embps::testing
