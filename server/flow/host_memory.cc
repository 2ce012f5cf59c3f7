#include "server/flow/host_memory.h"

#include <utility>

#include "proto/base/status_macros.h"

namespace embps {

wire::AllocateFn HostMemory(kernels::Backend& backend) {
  return [&backend](int64_t bytes) -> absl::StatusOr<std::shared_ptr<void>> {
    EMBPS_ASSIGN_OR_RETURN(kernels::Buffer buffer, backend.AllocateScratch(kernels::MemoryKind::kPinnedHost, bytes));
    auto owner = std::make_shared<kernels::Buffer>(std::move(buffer));
    return std::shared_ptr<void>(owner, owner->data());
  };
}

}  // namespace embps
