// Tuning constants of the CPU kernels. They change speed only, never a bit of a result.
#pragma once
#include <cstdint>

#include "absl/strings/string_view.h"

namespace embps::kernels::cpu {

// How a row is requested from memory ahead of its use.
enum class RowPrefetch : uint8_t {
  kLinesToL2,  // every line, into L2: L1 has few fill buffers, L2 has many
  kPairsToL1,  // every second line, into L1: the other of the pair comes along, and dense bursts are dropped (Zen 1, 2)
};

// One value per family of CPUs (docs: kernels/README.md, "Tuning"), chosen at start-up.
struct CpuPolicy {
  absl::string_view family = "generic";

  // Forward. Rows whose cache lines are requested ahead of the row being added, counted across bag boundaries.
  int32_t lookup_ahead_rows = 32;
  RowPrefetch row_prefetch = RowPrefetch::kLinesToL2;
  // Outputs of one call of at least this many bytes bypass the cache (they would evict the rows being gathered).
  int64_t streaming_output_bytes = int64_t{4} << 20;

  // Backward. Distinct rows (and their state) requested ahead of the row being updated.
  int32_t update_ahead_rows = 12;
  // Widest digit of the radix sort, in bits, <= 12.
  int32_t sort_digit_bits = 12;

  // Work is cut into about this many pieces per worker, so that a slow one does not delay the rest.
  int32_t pieces_per_worker = 4;
};

// The policy in force: chosen by the CPU's vendor and family on first use.
const CpuPolicy& Policy();

// Replaces the policy in force: for benchmarks and tests, while no kernel runs.
void SetPolicy(const CpuPolicy& policy);

}  // namespace embps::kernels::cpu
