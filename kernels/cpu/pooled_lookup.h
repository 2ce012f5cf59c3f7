// The lookups of kernels/api/pooled_lookup.h on the CPU. All return when the work is done.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/parallel_for.h"
#include "kernels/api/pooled_lookup.h"

namespace embps::kernels::cpu {

void PooledLookup(absl::Span<const PooledLookupTask> tasks, ParallelFor& parallel);
void SequenceLookup(absl::Span<const SequenceLookupTask> tasks, ParallelFor& parallel);
void ReducePartials(absl::Span<const ReducePartialsTask> tasks, ParallelFor& parallel);

}  // namespace embps::kernels::cpu
