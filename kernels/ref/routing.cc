#include "kernels/ref/routing.h"

#include <map>

namespace embps::kernels::ref {

void Offsets(absl::Span<const OffsetsTask> tasks) {
  for (const OffsetsTask& task : tasks) {
    for (int64_t i = 0; i <= task.count; ++i) {
      task.offsets[i] = 0;
      for (int64_t j = 0; j < i; ++j) task.offsets[i] += task.lengths[j];
    }
  }
}

void Bucketize(absl::Span<const BucketizeTask> tasks) {
  for (const BucketizeTask& task : tasks) {
    for (int32_t w = 0; w < task.bucket_count; ++w) {
      const Bucket& bucket = task.buckets[w];
      const int64_t first_row = task.row_begin + w * task.block_rows;
      int64_t at = 0;
      for (int64_t b = 0; b < task.bag_count; ++b) {
        bucket.lengths[b] = 0;
        for (int64_t i = task.offsets[b]; i < task.offsets[b + 1]; ++i) {
          if (task.ids[i] < first_row || task.ids[i] >= first_row + task.block_rows || task.ids[i] == -1) continue;
          bucket.lengths[b] += 1;
          bucket.ids[at] = task.ids[i] - first_row;
          if (bucket.weights != nullptr) bucket.weights[at] = task.weights[i];
          if (bucket.positions != nullptr) bucket.positions[at] = i;
          at += 1;
        }
      }
    }
  }
}

void Permute(absl::Span<const PermuteTask> tasks) {
  for (const PermuteTask& task : tasks) {
    for (int64_t i = 0; i < task.row_count; ++i) {
      for (int64_t byte = 0; byte < task.row_bytes; ++byte) {
        static_cast<char*>(task.dst)[i * task.dst_stride_bytes + byte] =
            static_cast<const char*>(task.src)[i * task.src_stride_bytes + byte];
      }
    }
  }
}

void ScatterRows(absl::Span<const ScatterRowsTask> tasks) {
  for (const ScatterRowsTask& task : tasks) {
    for (int64_t i = 0; i < task.row_count; ++i) {
      for (int64_t byte = 0; byte < task.row_bytes; ++byte) {
        static_cast<char*>(task.dst)[(task.positions[i] - task.position_base) * task.dst_stride_bytes + byte] =
            static_cast<const char*>(task.src)[i * task.row_bytes + byte];
      }
    }
  }
}

void Dedup(absl::Span<const DedupTask> tasks) {
  for (const DedupTask& task : tasks) {
    std::map<int64_t, int64_t> position;
    for (int64_t i = 0; i < task.id_count; ++i) {
      const auto [at, inserted] = position.try_emplace(task.ids[i], static_cast<int64_t>(position.size()));
      if (inserted) task.unique[at->second] = task.ids[i];
      task.inverse[i] = at->second;
    }
    *task.unique_count = static_cast<int64_t>(position.size());
  }
}

}  // namespace embps::kernels::ref
