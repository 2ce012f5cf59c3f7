// dedup on the CPU: distinct ids in the order of their first occurrence, and where each id went.
//
// Parallel over tasks: an open-addressing table of positions in `unique`, at most half full, its slots requested a few
// ids ahead. Bytes moved: 16 per id in the arrays, one random table line per id. Deterministic: serial inside a task.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/cpu/routing.h"
#include "proto/base/check.h"

namespace embps::kernels::cpu {
namespace {

// Fibonacci hashing: the high bits of the product with 2^64 / golden ratio.
uint64_t SlotOf(int64_t id, int shift) { return static_cast<uint64_t>(id) * 0x9e3779b97f4a7c15u >> shift; }

// `table` holds 2^(64 - shift) entries of Position, all empty.
template <class Position>
void DedupWithTable(const DedupTask& task, Position* table, int shift) {
  constexpr Position kEmpty = -1;
  constexpr int64_t kAhead = 16;
  const uint64_t mask = ~uint64_t{0} >> shift;
  int64_t count = 0;
  for (int64_t i = 0; i < task.id_count; ++i) {
    __builtin_prefetch(table + SlotOf(task.ids[std::min(i + kAhead, task.id_count - 1)], shift), 1);
    const int64_t id = task.ids[i];
    uint64_t slot = SlotOf(id, shift);
    while (table[slot] != kEmpty && task.unique[table[slot]] != id) slot = (slot + 1) & mask;
    if (table[slot] == kEmpty) {
      table[slot] = static_cast<Position>(count);
      task.unique[count++] = id;
    }
    task.inverse[i] = table[slot];
  }
  *task.unique_count = count;
}

template <class Position>
void DedupOne(const DedupTask& task, ScratchPool& scratch) {
  const int bits = std::max<int>(std::bit_width(static_cast<uint64_t>(task.id_count) * 2 - 1), 1);
  const int64_t bytes = (int64_t{1} << bits) * sizeof(Position);
  absl::StatusOr<Buffer> table = scratch.Allocate(MemoryKind::kDevice, bytes);
  // The input, several times the table's size, was admitted and stands in memory.
  EMBPS_CHECK(table.ok());
  std::memset(table->data(), 0xff, bytes);
  DedupWithTable(task, table->as<Position>(), 64 - bits);
}

}  // namespace

void Dedup(absl::Span<const DedupTask> tasks, ParallelFor& parallel, ScratchPool& scratch) {
  parallel.Run(static_cast<int64_t>(tasks.size()), [&](int64_t t) {
    const DedupTask& task = tasks[t];
    if (task.id_count == 0) {
      *task.unique_count = 0;
    } else if (task.id_count < std::numeric_limits<int32_t>::max() / 2) {
      DedupOne<int32_t>(task, scratch);
    } else {
      DedupOne<int64_t>(task, scratch);
    }
  });
}

}  // namespace embps::kernels::cpu
