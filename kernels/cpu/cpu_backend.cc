#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/api/immediate_stream.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/grad_prepare.h"
#include "kernels/cpu/grad_sort.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/pooled_lookup.h"
#include "kernels/cpu/reduce_update.h"
#include "kernels/cpu/routing.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch_pool.h"
#include "proto/base/check.h"
#include "proto/base/error.h"

namespace embps::kernels::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuBackendOptions& options)
      : options_(options),
        parallel_(options.parallel_for != nullptr ? *options.parallel_for : serial_),
        scratch_({.huge_pages = options.huge_pages, .retained_bytes = options.scratch_retained_bytes}) {}

  absl::string_view name() const override { return "cpu"; }
  std::string dispatch_target() const override { return CurrentDispatchTarget(); }
  std::unique_ptr<Stream> NewStream() override { return std::make_unique<ImmediateStream>(); }

  absl::StatusOr<Buffer> AllocateTable(int64_t bytes) override;
  absl::StatusOr<Buffer> AllocateScratch(MemoryKind kind, int64_t bytes) override {
    return scratch_.Allocate(kind, bytes);
  }

  void PooledLookup(absl::Span<const PooledLookupTask> tasks, Stream&) override { cpu::PooledLookup(tasks, parallel_); }
  void SequenceLookup(absl::Span<const SequenceLookupTask> tasks, Stream&) override {
    cpu::SequenceLookup(tasks, parallel_);
  }
  void ReducePartials(absl::Span<const ReducePartialsTask> tasks, Stream&) override {
    cpu::ReducePartials(tasks, parallel_);
  }

  void Offsets(absl::Span<const OffsetsTask> tasks, Stream&) override { cpu::Offsets(tasks, parallel_); }
  void Bucketize(absl::Span<const BucketizeTask> tasks, Stream&) override { cpu::Bucketize(tasks, parallel_); }
  void Permute(absl::Span<const PermuteTask> tasks, Stream&) override { cpu::Permute(tasks, parallel_); }
  void ScatterRows(absl::Span<const ScatterRowsTask> tasks, Stream&) override { cpu::ScatterRows(tasks, parallel_); }
  void Dedup(absl::Span<const DedupTask> tasks, Stream&) override { cpu::Dedup(tasks, parallel_, scratch_); }

  int64_t GradPlanBytes(const GradShape& shape) const override { return cpu::GradPlanBytes(shape); }
  int64_t GradSortWorkspaceBytes(const GradShape& shape) const override { return cpu::GradSortWorkspaceBytes(shape); }
  void GradSort(absl::Span<const GradSortTask> tasks, Stream&) override { cpu::GradSort(tasks, parallel_); }
  void DistinctRows(absl::Span<const DistinctRowsTask> tasks, Stream&) override { cpu::DistinctRows(tasks, parallel_); }

  void GradPrepare(absl::Span<const GradPrepareTask> tasks, Stream&) override { cpu::GradPrepare(tasks, parallel_); }
  int64_t ReduceUpdateWorkspaceBytes(const GradShape& shape, int32_t dim) const override {
    return cpu::ReduceUpdateWorkspaceBytes(shape, dim);
  }
  void ReduceUpdate(absl::Span<const ReduceUpdateTask> tasks, Stream&) override { cpu::ReduceUpdate(tasks, parallel_); }

  void InitRows(absl::Span<const InitRowsTask> tasks, Stream&) override { cpu::InitRows(tasks, parallel_); }
  void RowCopy(absl::Span<const RowCopyTask> tasks, Stream&) override { cpu::RowCopy(tasks, parallel_); }

 private:
  const CpuBackendOptions options_;
  SerialFor serial_;
  ParallelFor& parallel_;
  ScratchPool scratch_;  // thread safe
  // Shared with the tables' deleters, which may run after the backend is gone.
  const std::shared_ptr<std::atomic<int64_t>> table_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
};

absl::StatusOr<Buffer> CpuBackend::AllocateTable(int64_t bytes) {
  EMBPS_CHECK(bytes >= 0);
  const int64_t limit = options_.table_memory_limit_bytes;
  const int64_t used = table_bytes_->fetch_add(bytes);
  const bool fits = limit == 0 || (bytes <= limit && used <= limit - bytes);
  void* const data = fits ? MapPages(bytes > 0 ? bytes : 1, options_.huge_pages) : nullptr;
  if (data == nullptr) {
    table_bytes_->fetch_sub(bytes);
    const std::string limit_text = limit == 0 ? "none" : absl::StrCat(limit);
    return MakeError(
        Reason::kMemoryFull,
        absl::StrCat("no memory for a table of ", bytes, " bytes: ", used, " bytes are in use, the limit is ",
                     limit_text),
        {{"asked_bytes", absl::StrCat(bytes)}, {"used_bytes", absl::StrCat(used)}, {"limit_bytes", limit_text}});
  }
  return Buffer(data, bytes, MemoryKind::kDevice, [counter = table_bytes_](void* block, int64_t size) {
    UnmapPages(block, size > 0 ? size : 1);
    counter->fetch_sub(size);
  });
}

}  // namespace

absl::Status CpuBackendOptions::Validate() const {
  std::vector<std::string> faults;
  if (table_memory_limit_bytes < 0) faults.push_back("table_memory_limit_bytes is negative");
  if (scratch_retained_bytes < 0) faults.push_back("scratch_retained_bytes is negative");
  const std::vector<std::string> targets = DispatchTargets();
  if (!dispatch_target.empty() && std::find(targets.begin(), targets.end(), dispatch_target) == targets.end()) {
    faults.push_back(absl::StrCat("dispatch_target '", dispatch_target, "' is none of ", absl::StrJoin(targets, ", ")));
  }
  return faults.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
}

std::unique_ptr<Backend> NewCpuBackend(const CpuBackendOptions& options) {
  EMBPS_CHECK(options.Validate().ok());
  EMBPS_CHECK(ForceDispatchTarget(options.dispatch_target));
  return std::make_unique<CpuBackend>(options);
}

}  // namespace embps::kernels::cpu
