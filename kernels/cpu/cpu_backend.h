// The CPU backend: SIMD kernels that run at once on the calling thread and the workers of a ParallelFor.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/api/backend.h"
#include "kernels/api/parallel_for.h"

namespace embps::kernels::cpu {

struct CpuBackendOptions {
  // Borrowed, must outlive the backend. Null: everything on the calling thread.
  ParallelFor* parallel_for = nullptr;
  // Ask for 2 MiB pages for tables and scratch; lookups are 1.4 to 1.7 times faster. Off: to compare, or where the
  // kernel's huge pages are scarce.
  bool huge_pages = true;
  // Bytes that AllocateTable may hand out in all; 0 = what the system gives. Beyond it: MEMORY_FULL with asked, used
  // and limit.
  int64_t table_memory_limit_bytes = 0;
  // Idle scratch blocks of 2 MiB and more kept for reuse.
  int64_t scratch_retained_bytes = int64_t{1} << 30;
  // Runs all kernels of the process on this target of dispatch.h; empty = the best that the CPU has. For tests.
  std::string dispatch_target;

  // All faults at once, or OK.
  absl::Status Validate() const;
};

// Options must be valid. Streams run every operation before the call returns; OnComplete calls back at once.
std::unique_ptr<Backend> NewCpuBackend(const CpuBackendOptions& options = {});

}  // namespace embps::kernels::cpu
