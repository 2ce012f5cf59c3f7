// The interface between a shard server and what computes: one virtual call per operation and batch of tasks.
//
// Every operation takes the stream last, enqueues and returns; it never allocates and never waits. Task arrays and the
// small pointer arrays inside them (BucketizeTask::buckets, ReducePartialsTask::parts) are read during the call; every
// other buffer must stay valid, and is written, until the stream has run the operation. Tasks of one call are
// independent: they may run in any order and at the same time, so no two write the same memory.
// Validation is the caller's: ids in range, offsets consistent. Results are bit-identical on every backend and
// worker count.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/buffer.h"
#include "kernels/api/grad_sort.h"
#include "kernels/api/pooled_lookup.h"
#include "kernels/api/reduce_update.h"
#include "kernels/api/routing.h"
#include "kernels/api/rows.h"
#include "kernels/api/stream.h"

namespace embps::kernels {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual absl::string_view name() const = 0;       // "cpu", "ref", "cuda"
  virtual std::string dispatch_target() const = 0;  // such as "AVX3_ZEN4"

  // A stream must not outlive its backend.
  virtual std::unique_ptr<Stream> NewStream() = 0;
  // Zero-filled memory for tables. RESOURCE_EXHAUSTED MEMORY_FULL when there is none.
  virtual absl::StatusOr<Buffer> AllocateTable(int64_t bytes) = 0;
  // Uninitialised memory from a pool, 64-byte aligned; cheap enough for the hot path. bytes >= 0.
  virtual absl::StatusOr<Buffer> AllocateScratch(MemoryKind kind, int64_t bytes) = 0;

  virtual void PooledLookup(absl::Span<const PooledLookupTask> tasks, Stream& stream) = 0;
  virtual void SequenceLookup(absl::Span<const SequenceLookupTask> tasks, Stream& stream) = 0;
  virtual void ReducePartials(absl::Span<const ReducePartialsTask> tasks, Stream& stream) = 0;

  virtual void Offsets(absl::Span<const OffsetsTask> tasks, Stream& stream) = 0;
  virtual void Bucketize(absl::Span<const BucketizeTask> tasks, Stream& stream) = 0;
  virtual void Permute(absl::Span<const PermuteTask> tasks, Stream& stream) = 0;
  virtual void ScatterRows(absl::Span<const ScatterRowsTask> tasks, Stream& stream) = 0;
  virtual void Dedup(absl::Span<const DedupTask> tasks, Stream& stream) = 0;

  virtual int64_t GradPlanBytes(const GradShape& shape) const = 0;
  virtual int64_t GradSortWorkspaceBytes(const GradShape& shape) const = 0;
  virtual void GradSort(absl::Span<const GradSortTask> tasks, Stream& stream) = 0;
  virtual void DistinctRows(absl::Span<const DistinctRowsTask> tasks, Stream& stream) = 0;

  virtual void GradPrepare(absl::Span<const GradPrepareTask> tasks, Stream& stream) = 0;
  virtual int64_t ReduceUpdateWorkspaceBytes(const GradShape& shape, int32_t dim) const = 0;
  virtual void ReduceUpdate(absl::Span<const ReduceUpdateTask> tasks, Stream& stream) = 0;

  virtual void InitRows(absl::Span<const InitRowsTask> tasks, Stream& stream) = 0;
  virtual void RowCopy(absl::Span<const RowCopyTask> tasks, Stream& stream) = 0;
};

}  // namespace embps::kernels
