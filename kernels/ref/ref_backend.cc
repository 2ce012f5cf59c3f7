#include "kernels/ref/ref_backend.h"

#include <cstdlib>

#include "kernels/api/immediate_stream.h"
#include "kernels/ref/grad_prepare.h"
#include "kernels/ref/grad_sort.h"
#include "kernels/ref/pooled_lookup.h"
#include "kernels/ref/reduce_update.h"
#include "kernels/ref/routing.h"
#include "kernels/ref/rows.h"
#include "proto/base/error.h"

namespace embps::kernels::ref {
namespace {

Buffer::Deleter FreeBlock() {
  return [](void* data, int64_t) { std::free(data); };
}

absl::Status NoMemory() { return MakeError(Reason::kMemoryFull, "out of memory"); }

class RefBackend final : public Backend {
 public:
  absl::string_view name() const override { return "ref"; }
  std::string dispatch_target() const override { return "double"; }
  std::unique_ptr<Stream> NewStream() override { return std::make_unique<ImmediateStream>(); }

  absl::StatusOr<Buffer> AllocateTable(int64_t bytes) override {
    void* const data = std::calloc(bytes > 0 ? bytes : 1, 1);
    if (data == nullptr) return NoMemory();
    return Buffer(data, bytes, MemoryKind::kDevice, FreeBlock());
  }
  absl::StatusOr<Buffer> AllocateScratch(MemoryKind kind, int64_t bytes) override {
    void* const data = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (data == nullptr) return NoMemory();
    return Buffer(data, bytes, kind, FreeBlock());
  }

  void PooledLookup(absl::Span<const PooledLookupTask> tasks, Stream&) override { ref::PooledLookup(tasks); }
  void SequenceLookup(absl::Span<const SequenceLookupTask> tasks, Stream&) override { ref::SequenceLookup(tasks); }
  void ReducePartials(absl::Span<const ReducePartialsTask> tasks, Stream&) override { ref::ReducePartials(tasks); }

  void Offsets(absl::Span<const OffsetsTask> tasks, Stream&) override { ref::Offsets(tasks); }
  void Bucketize(absl::Span<const BucketizeTask> tasks, Stream&) override { ref::Bucketize(tasks); }
  void Permute(absl::Span<const PermuteTask> tasks, Stream&) override { ref::Permute(tasks); }
  void ScatterRows(absl::Span<const ScatterRowsTask> tasks, Stream&) override { ref::ScatterRows(tasks); }
  void Dedup(absl::Span<const DedupTask> tasks, Stream&) override { ref::Dedup(tasks); }

  int64_t GradPlanBytes(const GradShape& shape) const override { return ref::GradPlanBytes(shape); }
  int64_t GradSortWorkspaceBytes(const GradShape& shape) const override { return ref::GradSortWorkspaceBytes(shape); }
  void GradSort(absl::Span<const GradSortTask> tasks, Stream&) override { ref::GradSort(tasks); }
  void DistinctRows(absl::Span<const DistinctRowsTask> tasks, Stream&) override { ref::DistinctRows(tasks); }

  void GradPrepare(absl::Span<const GradPrepareTask> tasks, Stream&) override { ref::GradPrepare(tasks); }
  int64_t ReduceUpdateWorkspaceBytes(const GradShape& shape, int32_t dim) const override {
    return ref::ReduceUpdateWorkspaceBytes(shape, dim);
  }
  void ReduceUpdate(absl::Span<const ReduceUpdateTask> tasks, Stream&) override { ref::ReduceUpdate(tasks); }

  void InitRows(absl::Span<const InitRowsTask> tasks, Stream&) override { ref::InitRows(tasks); }
  void RowCopy(absl::Span<const RowCopyTask> tasks, Stream&) override { ref::RowCopy(tasks); }
};

}  // namespace

std::unique_ptr<Backend> NewRefBackend() { return std::make_unique<RefBackend>(); }

}  // namespace embps::kernels::ref
