// The layout of a CPU plan, shared by grad_sort, which writes it, and reduce_update, which reads it.
//
//   plan        := keys occurrences?
//   keys        := Key[N], ascending; key = row << payload bits | payload; padded to 64 bytes
//   occurrences := PlanOccurrence[N] in KJT order, present when the task is weighted
// Key is the narrowest of uint32_t, uint64_t and 128 bits that holds rows and payloads. The payload is the slot, or
// with weights the index into `occurrences`. Keys of one row keep KJT order, since payloads ascend in it.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/api/grad_sort.h"
#include "proto/base/check.h"

namespace embps::kernels::cpu {

__extension__ typedef unsigned __int128 WideKey;

struct PlanOccurrence {
  uint32_t slot = 0;
  float weight = 0;
};

inline int64_t RoundUp64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct PlanLayout {
  int row_bits = 0;
  int payload_bits = 0;
  int64_t key_bytes = 4;          // of one key
  int64_t keys_bytes = 0;         // of the array, padded
  int64_t occurrences_bytes = 0;  // of the array, padded; 0 when unweighted

  explicit PlanLayout(const GradShape& shape) {
    constexpr int kMaxRowBits = 48;
    row_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(shape.row_count, 1) - 1)));
    const int64_t payloads = shape.weighted ? shape.id_count : shape.slot_count;
    payload_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(payloads, 1) - 1)));
    EMBPS_CHECK(row_bits <= kMaxRowBits && shape.id_count < INT64_C(0xffffffff) &&
                shape.slot_count <= INT64_C(0xffffffff));
    const int bits = row_bits + payload_bits;
    key_bytes = bits <= 32 ? 4 : bits <= 64 ? 8 : 16;
    keys_bytes = RoundUp64(shape.id_count * key_bytes);
    occurrences_bytes = shape.weighted ? RoundUp64(shape.id_count * int64_t{sizeof(PlanOccurrence)}) : 0;
  }
  int64_t bytes() const { return keys_bytes + occurrences_bytes; }
};

template <class Key>
inline int64_t RowOf(Key key, int payload_bits) {
  return static_cast<int64_t>(key >> payload_bits);
}

// Calls f(Key{}) with the key type of `layout`.
template <class F>
void VisitKeyType(const PlanLayout& layout, F f) {
  switch (layout.key_bytes) {
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(WideKey{});
  }
}

// How the tasks of one call are cut into pieces: about `pieces` in all, each task into 1 .. kMaxPieces, in proportion
// to its ids. Pure arithmetic, so that nothing need be allocated to remember it.
class PieceCutter {
 public:
  static constexpr int64_t kMaxPieces = 32;

  PieceCutter(int64_t total_ids, int64_t pieces)
      : ids_per_piece_(std::max(kMinIds, total_ids / std::max<int64_t>(pieces, 1))) {}
  int64_t PiecesOf(int64_t id_count) const {
    return std::clamp<int64_t>((id_count + ids_per_piece_ / 2) / ids_per_piece_, 1, kMaxPieces);
  }

 private:
  static constexpr int64_t kMinIds = 1024;
  int64_t ids_per_piece_;
};

}  // namespace embps::kernels::cpu
