// What the pieces of reduce_update hand to the update of one row; the same on every dispatch target.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/api/reduce_update.h"
#include "kernels/math/optimizer.h"

namespace embps::kernels::cpu {

// Rows are updated in batches: while one batch is updated, the memory of the next is on its way.
inline constexpr int64_t kMaxBatchRows = 16;
inline constexpr int64_t BatchRows(int64_t dim) {
  constexpr int64_t kFloatsAhead = 4096;  // keeps two batches of sums in the L1 cache
  return std::clamp<int64_t>(kFloatsAhead / dim, 2, kMaxBatchRows);
}

// Scratch of one piece: arrays of `stride` floats (D rounded up to the widest vector), 64-byte aligned.
class UpdateScratch {
 public:
  enum Array { kChunk, kTerms0, kTerms1, kDecoded, kRow, kState0, kState1, kRandom, kArrays };

  UpdateScratch(void* base, int64_t dim) : base_(static_cast<float*>(base)), stride_(StrideOf(dim)) {}
  float* operator[](Array array) const { return base_ + array * stride_; }
  // The summed gradient of a row of one of the two batches.
  float* Sum(int64_t index) const {
    return base_ + kArrays * stride_ + kRandomSlackBytes / int64_t{sizeof(float)} + index * stride_;
  }
  static int64_t BytesOf(int64_t dim) {
    return (kArrays + 2 * BatchRows(dim)) * StrideOf(dim) * int64_t{sizeof(float)} + kRandomSlackBytes;
  }

 private:
  // Random bits come in blocks of 8 columns and vectors of blocks, and a slice may start inside a block.
  static constexpr int64_t kRandomSlackBytes = 256;
  static constexpr int64_t kWidestVector = 16;  // floats
  static int64_t StrideOf(int64_t dim) { return (dim + kWidestVector - 1) / kWidestVector * kWidestVector; }
  float* base_;
  int64_t stride_;
};

// Everything an update needs to know besides the row and its gradient.
struct UpdateContext {
  OptimizerScalars scalars;
  TableView table;
  Rounding rounding;
  UpdateScratch scratch;
  bool prefetch_to_l2 = false;
};

// A row to update and its summed gradient.
struct RowItem {
  int64_t row = 0;
  const float* gradient = nullptr;  // [D]
};

struct RowBatch {
  int64_t count = 0;
  RowItem items[kMaxBatchRows];
};

}  // namespace embps::kernels::cpu
