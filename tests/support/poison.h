// What a buffer holds until an operation has written it, by operation: see deferred_backend.h.
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/api/backend.h"

namespace embps::testing {

// NaN in every float type.
inline void PoisonFloats(void* data, int64_t bytes) {
  if (data != nullptr && bytes > 0) std::memset(data, 0xff, static_cast<size_t>(bytes));
}
// Far outside any table or batch; not -1, which means a dropped id.
inline void PoisonIntegers(int64_t* data, int64_t count) {
  if (data != nullptr && count > 0) std::memset(data, 0x7a, static_cast<size_t>(count) * sizeof(*data));
}
// Memory of unknown use: huge as an integer, 3e38 as fp32 and bf16, NaN as fp16.
inline void PoisonBytes(void* data, int64_t bytes) {
  if (data != nullptr && bytes > 0) std::memset(data, 0x7f, static_cast<size_t>(bytes));
}

// Rows of `width` elements; what lies between them is not this task's.
inline void PoisonRows(void* out, int64_t rows, int64_t width, int64_t stride, kernels::ElementType type) {
  const int64_t size = kernels::ElementBytes(type);
  for (int64_t row = 0; row < rows; ++row) PoisonFloats(static_cast<char*>(out) + row * stride * size, width * size);
}

inline void PoisonOutputs(const kernels::PooledLookupTask& task) {
  PoisonRows(task.out, task.bag_count, task.table.dim, task.out_stride, task.out_type);
}
inline void PoisonOutputs(const kernels::SequenceLookupTask& task) {
  PoisonRows(task.out, task.id_count, task.table.dim, task.out_stride, task.out_type);
}
inline void PoisonOutputs(const kernels::ReducePartialsTask& task) {
  PoisonRows(task.out, task.bag_count, task.dim, task.out_stride, task.out_type);
}
inline void PoisonOutputs(const kernels::OffsetsTask& task) { PoisonIntegers(task.offsets, task.count + 1); }
inline void PoisonOutputs(const kernels::BucketizeTask& task) {
  for (int32_t b = 0; b < task.bucket_count; ++b) {
    const kernels::Bucket& bucket = task.buckets[b];
    PoisonIntegers(bucket.lengths, task.bag_count);
    PoisonIntegers(bucket.ids, bucket.count);
    PoisonIntegers(bucket.positions, bucket.count);
    if (bucket.weights != nullptr) PoisonFloats(bucket.weights, bucket.count * int64_t{sizeof(float)});
  }
}
inline void PoisonOutputs(const kernels::PermuteTask& task) {
  for (int64_t row = 0; row < task.row_count; ++row) {
    PoisonBytes(static_cast<char*>(task.dst) + row * task.dst_stride_bytes, task.row_bytes);
  }
}
// Where the rows go stands in memory that may not be written yet.
inline void PoisonOutputs(const kernels::ScatterRowsTask&) {}
inline void PoisonOutputs(const kernels::DedupTask& task) {
  PoisonIntegers(task.unique, task.id_count);
  PoisonIntegers(task.inverse, task.id_count);
  PoisonIntegers(task.unique_count, 1);
}
inline void PoisonOutputs(const kernels::DistinctRowsTask& task) {
  PoisonIntegers(task.rows, task.shape.id_count < task.shape.row_count ? task.shape.id_count : task.shape.row_count);
  PoisonIntegers(task.count, 1);
}
// Updated in place, or tables that earlier operations still read.
inline void PoisonOutputs(const kernels::GradPrepareTask&) {}
inline void PoisonOutputs(const kernels::ReduceUpdateTask&) {}
inline void PoisonOutputs(const kernels::InitRowsTask&) {}
inline void PoisonOutputs(const kernels::RowCopyTask& task) {
  if (!task.write) {
    PoisonRows(task.values, task.id_count, task.dim, task.value_stride, kernels::ElementType::kFp32);
  }
}

}  // namespace embps::testing
