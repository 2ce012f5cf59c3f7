// pooled_lookup: bags of ids -> one row per bag.
#pragma once
#include "kernels/api/types.h"

namespace embps::kernels {

// One (feature, shard) pair: out[b] = (sum over j of weight_j * row[id_j]) / divisor_b.
// Canonical order: left fold from +0 inside chunks of 256 ids counted from the bag's start, then left fold over the
// chunk sums; each product is rounded before it is added; one true division, last; then one conversion to out_type.
struct PooledLookupTask {
  TableView table;
  const int64_t* offsets = nullptr;   // [B + 1], non-decreasing; bag b = ids[offsets[b] .. offsets[b + 1])
  const int64_t* ids = nullptr;       // local rows, 0 <= id < R
  const float* weights = nullptr;     // [L] beside ids, or null = 1
  const int64_t* divisors = nullptr;  // [B] or null; an entry of 0 or 1 does not divide
  bool divide_by_length = false;      // MEAN of a bag that lies wholly here: divisor = its own length
  int64_t bag_count = 0;              // B
  void* out = nullptr;                // [B, D] of out_type
  int64_t out_stride = 0;             // elements between rows of `out`, >= D
  ElementType out_type = ElementType::kFp32;
};

// Ids in id order -> their rows. id -1 gives a zero row (an id that DROP left its place).
struct SequenceLookupTask {
  TableView table;
  const int64_t* ids = nullptr;  // [N] local rows, -1 <= id < R
  int64_t id_count = 0;          // N
  void* out = nullptr;           // [N, D] of out_type
  int64_t out_stride = 0;
  ElementType out_type = ElementType::kFp32;
};

// out[b] = (parts[0][b] + parts[1][b] + ... + parts[W-1][b]) / divisor_b, summed in rank order, then converted: the
// compute half of the ordered reduce-scatter.
struct ReducePartialsTask {
  const float* const* parts = nullptr;  // [W] pointers to [B, D] fp32, rows contiguous
  int32_t part_count = 0;               // W >= 1
  const int64_t* divisors = nullptr;    // [B] or null; an entry of 0 or 1 does not divide
  int64_t bag_count = 0;
  int32_t dim = 0;
  void* out = nullptr;  // [B, D] of out_type
  int64_t out_stride = 0;
  ElementType out_type = ElementType::kFp32;
};

}  // namespace embps::kernels
