// The lookups of kernels/api/pooled_lookup.h in double and plain loops.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/pooled_lookup.h"

namespace embps::kernels::ref {

void PooledLookup(absl::Span<const PooledLookupTask> tasks);
void SequenceLookup(absl::Span<const SequenceLookupTask> tasks);
void ReducePartials(absl::Span<const ReducePartialsTask> tasks);

}  // namespace embps::kernels::ref
