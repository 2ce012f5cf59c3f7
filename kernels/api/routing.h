// Operations that move ids and rows between layouts: offsets, bucketize, permute, dedup.
#pragma once
#include "kernels/api/types.h"

namespace embps::kernels {

// offsets[0] = 0, offsets[i + 1] = offsets[i] + lengths[i].
struct OffsetsTask {
  const int64_t* lengths = nullptr;  // [B], >= 0
  int64_t count = 0;                 // B
  int64_t* offsets = nullptr;        // [B + 1]
};

// Where the ids of one bucket go. Sizes are known on the host from decode.
struct Bucket {
  int64_t* lengths = nullptr;    // [B] ids of each bag that fall into this bucket, empty bags included
  int64_t* ids = nullptr;        // [count] local rows: id - row_begin - bucket * block_rows, in bag order
  float* weights = nullptr;      // [count] or null
  int64_t* positions = nullptr;  // [count] index into the input ids that each came from, or null
  int64_t count = 0;
};

// Row-wise routing of one feature: bucket of id = (id - row_begin) / block_rows. Order inside a bag is kept.
// id -1 (dropped sequence position) goes to no bucket.
struct BucketizeTask {
  const int64_t* offsets = nullptr;  // [B + 1]; offsets[0] may be > 0
  const int64_t* ids = nullptr;    // indexed by offsets; row_begin <= id < row_begin + bucket_count * block_rows, or -1
  const float* weights = nullptr;  // indexed by offsets, or null
  int64_t bag_count = 0;
  int64_t row_begin = 0;
  int64_t block_rows = 0;           // >= 1
  const Bucket* buckets = nullptr;  // [bucket_count]
  int32_t bucket_count = 0;
};

// count rows of row_bytes each from src to dst: contiguous segments, columns into wider rows, and back.
struct PermuteTask {
  const void* src = nullptr;
  int64_t src_stride_bytes = 0;
  void* dst = nullptr;
  int64_t dst_stride_bytes = 0;
  int64_t row_bytes = 0;
  int64_t row_count = 0;
};

// dst[positions[i]] = src[i] for rows of D elements: the way back of a row-wise sequence lookup.
struct ScatterRowsTask {
  const void* src = nullptr;           // [N, row_bytes]
  const int64_t* positions = nullptr;  // [N], distinct
  int64_t row_count = 0;
  int64_t row_bytes = 0;
  int64_t position_base = 0;  // subtracted from each position
  void* dst = nullptr;
  int64_t dst_stride_bytes = 0;
};

// Distinct ids in the order of their first occurrence. unique[inverse[i]] == ids[i].
struct DedupTask {
  const int64_t* ids = nullptr;  // [N]
  int64_t id_count = 0;
  int64_t* unique = nullptr;   // [N] capacity, first *unique_count valid
  int64_t* inverse = nullptr;  // [N]
  int64_t* unique_count = nullptr;
};

}  // namespace embps::kernels
