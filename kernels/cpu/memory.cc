#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include "proto/base/check.h"

namespace embps::kernels::cpu {
namespace {

int64_t RoundUpToHugePage(int64_t bytes) { return (bytes + kHugePageBytes - 1) & ~(kHugePageBytes - 1); }

}  // namespace

void* MapPages(int64_t bytes, bool huge_pages) {
  EMBPS_CHECK(bytes > 0);
  if (bytes > INT64_MAX - 2 * kHugePageBytes) return nullptr;
  const int64_t size = RoundUpToHugePage(bytes);
  // One huge page more than needed, so that an aligned start exists; the ends are given back.
  const int64_t total = size + kHugePageBytes;
  void* raw = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(raw);
  const int64_t head = RoundUpToHugePage(reinterpret_cast<intptr_t>(begin)) - reinterpret_cast<intptr_t>(begin);
  if (head > 0) munmap(begin, head);
  if (head < kHugePageBytes) munmap(begin + head + size, kHugePageBytes - head);
  // Advice only: without huge pages everything still works, slower.
  madvise(begin + head, size, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return begin + head;
}

void UnmapPages(void* data, int64_t bytes) { EMBPS_CHECK(munmap(data, RoundUpToHugePage(bytes)) == 0); }

}  // namespace embps::kernels::cpu
