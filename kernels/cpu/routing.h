// The data movement of kernels/api/routing.h on the CPU. All return when the work is done.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/parallel_for.h"
#include "kernels/api/routing.h"
#include "kernels/cpu/scratch_pool.h"

namespace embps::kernels::cpu {

void Offsets(absl::Span<const OffsetsTask> tasks, ParallelFor& parallel);
void Bucketize(absl::Span<const BucketizeTask> tasks, ParallelFor& parallel);
void Permute(absl::Span<const PermuteTask> tasks, ParallelFor& parallel);
void ScatterRows(absl::Span<const ScatterRowsTask> tasks, ParallelFor& parallel);
// Takes its hash tables (8 to 32 bytes per id) from `scratch`.
void Dedup(absl::Span<const DedupTask> tasks, ParallelFor& parallel, ScratchPool& scratch);

}  // namespace embps::kernels::cpu
