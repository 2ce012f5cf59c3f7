// Pooled memory for everything that lives as long as a call: decoded ids, plans, outputs.
//
// Blocks come in size classes; free blocks of a class form a stack, so that the block handed out is the one that was
// freed last and is still in the cache. Blocks below 2 MiB are carved from 2 MiB regions that stay for good; larger
// ones have a mapping of their own and go back to the system when more than `retained_bytes` of them lie idle.
#pragma once
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/buffer.h"

namespace embps::kernels::cpu {

struct ScratchPoolOptions {
  bool huge_pages = true;
  int64_t retained_bytes = int64_t{1} << 30;  // idle large blocks kept for reuse
};

// Thread safe. The memory outlives the pool as long as buffers of it live.
class ScratchPool {
 public:
  explicit ScratchPool(const ScratchPoolOptions& options = {});

  // Uninitialised, 64-byte aligned, at least `bytes` (>= 0) long; Buffer::bytes() is what was asked for.
  // RESOURCE_EXHAUSTED MEMORY_FULL when the system has no more.
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t bytes);

  // What Allocate(bytes) takes.
  static int64_t BlockBytes(int64_t bytes);
  int64_t live_bytes() const;    // in blocks handed out
  int64_t mapped_bytes() const;  // from the system, idle or not

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace embps::kernels::cpu
