// Anonymous memory on huge pages.
#pragma once
#include <cstdint>

namespace embps::kernels::cpu {

inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// A 2 MiB-aligned, zero-filled mapping of at least `bytes` (> 0), backed by memory page by page as it is touched.
// With `huge_pages` the system is asked for 2 MiB pages (a random row then costs one TLB miss instead of several).
// Null when the system refuses.
void* MapPages(int64_t bytes, bool huge_pages);
void UnmapPages(void* data, int64_t bytes);

}  // namespace embps::kernels::cpu
