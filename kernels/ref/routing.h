// The data movement of kernels/api/routing.h in plain loops.
#pragma once
#include "absl/types/span.h"
#include "kernels/api/routing.h"

namespace embps::kernels::ref {

void Offsets(absl::Span<const OffsetsTask> tasks);
void Bucketize(absl::Span<const BucketizeTask> tasks);
void Permute(absl::Span<const PermuteTask> tasks);
void ScatterRows(absl::Span<const ScatterRowsTask> tasks);
void Dedup(absl::Span<const DedupTask> tasks);

}  // namespace embps::kernels::ref
