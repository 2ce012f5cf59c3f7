// grad_sort: the occurrences of one shard in one push -> a plan, sorted by row, that reduce_update consumes.
#pragma once
#include "kernels/api/types.h"

namespace embps::kernels {

// Occurrence i (KJT order: feature as listed, sample, position) touches local row ids[i] and takes its gradient from
// slot s with offsets[s] <= i < offsets[s + 1]. A pooled bag is one slot; each id of a sequence feature is a slot.
// The sort is stable, so occurrences of a row keep KJT order.
struct GradSortTask {
  const int64_t* ids = nullptr;      // [N] local rows, 0 <= id < R
  int64_t id_count = 0;              // N
  const int64_t* offsets = nullptr;  // [S + 1], offsets[0] = 0, offsets[S] = N
  int64_t slot_count = 0;            // S
  int64_t row_count = 0;             // R
  const float* weights = nullptr;    // [N] or null; copied into the plan when present
  void* plan = nullptr;              // GradPlanBytes(shape) bytes, 64-byte aligned; layout private to the backend
  void* workspace = nullptr;         // GradSortWorkspaceBytes(shape) bytes, 64-byte aligned
};

// What sizes depend on; equal for the sort and its update.
struct GradShape {
  int64_t id_count = 0;
  int64_t slot_count = 0;
  int64_t row_count = 0;
  bool weighted = false;
};

// rows[0 .. *count): the distinct rows of a plan in ascending order, for BeforeWrite observers.
struct DistinctRowsTask {
  GradShape shape;
  const void* plan = nullptr;
  int64_t* rows = nullptr;  // [min(N, R)] capacity
  int64_t* count = nullptr;
};

}  // namespace embps::kernels
