// The Backend contract on a device that runs everything as late as it may: what the suite reads too early is poison.
#include "kernels/cpu/cpu_backend.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/deferred_backend.h"
#include "tests/support/thread_for.h"

namespace embps::testing {
namespace {

BackendFactory Deferred(const std::string& name, DeferredOptions::RunOn run_on) {
  return {name, [run_on](int workers) {
            static ThreadFor loops[] = {ThreadFor(1), ThreadFor(2), ThreadFor(3)};
            kernels::cpu::CpuBackendOptions options;
            options.parallel_for = &loops[workers - 1];
            return NewDeferredBackend(kernels::cpu::NewCpuBackend(options), {run_on});
          }};
}

INSTANTIATE_TEST_SUITE_P(Deferred, BackendContract,
                         ::testing::Values(Deferred("own_thread", DeferredOptions::RunOn::kOwnThread),
                                           Deferred("on_caller", DeferredOptions::RunOn::kCaller)),
                         FactoryName);

}  // namespace
}  // namespace embps::testing
