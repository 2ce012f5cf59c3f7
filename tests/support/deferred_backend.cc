#include "tests/support/deferred_backend.h"

#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "tests/support/deferred_stream.h"
#include "tests/support/poison.h"

namespace embps::testing {
namespace {

using kernels::Backend;
using kernels::Stream;

DeferredStream& AsDeferred(Stream& stream) {
  auto* deferred = dynamic_cast<DeferredStream*>(&stream);
  EMBPS_CHECK(deferred != nullptr);
  return *deferred;
}

// Copies of the arrays that tasks point to and that are only promised to live during the call.
template <class Task, class Element>
class TaskArrays {
 public:
  // `field`: the task's pointer to `count` elements.
  TaskArrays(absl::Span<const Task> tasks, const Element* Task::*field, int32_t Task::*count)
      : tasks_(tasks.begin(), tasks.end()) {
    for (Task& task : tasks_) {
      arrays_.emplace_back(task.*field, task.*field + task.*count);
      task.*field = arrays_.back().data();
    }
  }
  absl::Span<const Task> tasks() const { return tasks_; }

 private:
  std::vector<Task> tasks_;
  std::vector<std::vector<Element>> arrays_;
};

class DeferredBackend final : public Backend {
 public:
  DeferredBackend(std::unique_ptr<Backend> inner, const DeferredOptions& options)
      : inner_(std::move(inner)), options_(options) {}

  absl::string_view name() const override { return inner_->name(); }
  std::string dispatch_target() const override { return inner_->dispatch_target(); }
  std::unique_ptr<Stream> NewStream() override {
    return std::make_unique<DeferredStream>(inner_->NewStream(), options_.run_on == DeferredOptions::RunOn::kOwnThread);
  }

  absl::StatusOr<kernels::Buffer> AllocateTable(int64_t bytes) override { return inner_->AllocateTable(bytes); }
  absl::StatusOr<kernels::Buffer> AllocateScratch(kernels::MemoryKind kind, int64_t bytes) override {
    auto buffer = inner_->AllocateScratch(kind, bytes);
    if (!buffer.ok()) return buffer.status();
    void* const data = buffer->data();
    PoisonBytes(data, bytes);
    auto owner = std::make_shared<kernels::Buffer>(std::move(*buffer));
    return kernels::Buffer(data, bytes, kind, [owner](void* freed, int64_t size) mutable {
      PoisonBytes(freed, size);
      owner.reset();
    });
  }

  void PooledLookup(absl::Span<const kernels::PooledLookupTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::PooledLookup);
  }
  void SequenceLookup(absl::Span<const kernels::SequenceLookupTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::SequenceLookup);
  }
  void ReducePartials(absl::Span<const kernels::ReducePartialsTask> tasks, Stream& stream) override {
    using Task = kernels::ReducePartialsTask;
    DeferArrays(TaskArrays(tasks, &Task::parts, &Task::part_count), stream, &Backend::ReducePartials);
  }
  void Offsets(absl::Span<const kernels::OffsetsTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::Offsets);
  }
  void Bucketize(absl::Span<const kernels::BucketizeTask> tasks, Stream& stream) override {
    using Task = kernels::BucketizeTask;
    DeferArrays(TaskArrays(tasks, &Task::buckets, &Task::bucket_count), stream, &Backend::Bucketize);
  }
  void Permute(absl::Span<const kernels::PermuteTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::Permute);
  }
  void ScatterRows(absl::Span<const kernels::ScatterRowsTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::ScatterRows);
  }
  void Dedup(absl::Span<const kernels::DedupTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::Dedup);
  }

  int64_t GradPlanBytes(const kernels::GradShape& shape) const override { return inner_->GradPlanBytes(shape); }
  int64_t GradSortWorkspaceBytes(const kernels::GradShape& shape) const override {
    return inner_->GradSortWorkspaceBytes(shape);
  }
  void GradSort(absl::Span<const kernels::GradSortTask> tasks, Stream& stream) override {
    for (const kernels::GradSortTask& task : tasks) {
      const kernels::GradShape shape{task.id_count, task.slot_count, task.row_count, task.weights != nullptr};
      PoisonBytes(task.plan, inner_->GradPlanBytes(shape));
      PoisonBytes(task.workspace, inner_->GradSortWorkspaceBytes(shape));
    }
    AddCall(std::vector(tasks.begin(), tasks.end()), stream, &Backend::GradSort);
  }
  void DistinctRows(absl::Span<const kernels::DistinctRowsTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::DistinctRows);
  }

  void GradPrepare(absl::Span<const kernels::GradPrepareTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::GradPrepare);
  }
  int64_t ReduceUpdateWorkspaceBytes(const kernels::GradShape& shape, int32_t dim) const override {
    return inner_->ReduceUpdateWorkspaceBytes(shape, dim);
  }
  void ReduceUpdate(absl::Span<const kernels::ReduceUpdateTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::ReduceUpdate);
  }
  void InitRows(absl::Span<const kernels::InitRowsTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::InitRows);
  }
  void RowCopy(absl::Span<const kernels::RowCopyTask> tasks, Stream& stream) override {
    Defer(tasks, stream, &Backend::RowCopy);
  }

 private:
  template <class Task>
  using Call = void (Backend::*)(absl::Span<const Task>, Stream&);

  template <class Task>
  void AddCall(std::vector<Task> tasks, Stream& stream, Call<Task> call) {
    AsDeferred(stream).Add([this, tasks = std::move(tasks), call](Stream& inner) { ((*inner_).*call)(tasks, inner); });
  }
  template <class Task>
  void Defer(absl::Span<const Task> tasks, Stream& stream, Call<Task> call) {
    for (const Task& task : tasks) PoisonOutputs(task);
    AddCall(std::vector(tasks.begin(), tasks.end()), stream, call);
  }
  template <class Task, class Element>
  void DeferArrays(TaskArrays<Task, Element> copies, Stream& stream, Call<Task> call) {
    for (const Task& task : copies.tasks()) PoisonOutputs(task);
    AsDeferred(stream).Add(
        [this, copies = std::move(copies), call](Stream& inner) { ((*inner_).*call)(copies.tasks(), inner); });
  }

  const std::unique_ptr<Backend> inner_;
  const DeferredOptions options_;
};

}  // namespace

std::unique_ptr<Backend> NewDeferredBackend(std::unique_ptr<Backend> inner, const DeferredOptions& options) {
  return std::make_unique<DeferredBackend>(std::move(inner), options);
}

}  // namespace embps::testing
