// What every Backend must do: one suite, instantiated for each implementation.
//
// Each case runs an operation on the backend under test and on the oracle (kernels/ref) over the same inputs, compares
// by tests/support/tolerances.h, and compares bit for bit between worker counts. Results are read only after
// OnComplete.
//
// To run the suite on another implementation, link the objects of `embps_backend_contract` and add one file with
//   INSTANTIATE_TEST_SUITE_P(Deferred, BackendContract, ::testing::Values(BackendFactory{"deferred", make}),
//   FactoryName);
#pragma once
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/api/backend.h"

namespace embps::testing {

struct BackendFactory {
  std::string name;  // letters, digits, underscores
  // A backend that uses `workers` cores where it can. It owns whatever it borrows from.
  std::function<std::unique_ptr<kernels::Backend>(int workers)> make;
};
inline void PrintTo(const BackendFactory& factory, std::ostream* out) { *out << factory.name; }
inline std::string FactoryName(const ::testing::TestParamInfo<BackendFactory>& info) { return info.param.name; }

// Worker counts whose results must be equal to the bit.
inline constexpr int kWorkerCounts[] = {1, 2, 3};

// Waits until everything enqueued on `stream` has run. Returns the completion's status.
absl::Status WaitFor(kernels::Stream& stream);

// Calls `enqueue(backend, stream)` on a new stream and waits for its completion. Returns the completion's status.
absl::Status RunAndWait(kernels::Backend& backend,
                        const std::function<void(kernels::Backend& backend, kernels::Stream& stream)>& enqueue);

class BackendContract : public ::testing::TestWithParam<BackendFactory> {
 protected:
  std::unique_ptr<kernels::Backend> Make(int workers = 2) const { return GetParam().make(workers); }
};

}  // namespace embps::testing
