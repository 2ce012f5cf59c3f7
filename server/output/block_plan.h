// Cuts a reply into blocks: what one reply frame carries. A reply is feature-major, [rows_f, dim_f] per feature, one
// feature after another, and the blocks cut it in that order.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "embps/v1/embedding.pb.h"

namespace embps {

inline constexpr int64_t kMinFrameBytes = 4 << 10;

// One feature of the reply.
struct ReplyFeature {
  int64_t row_count = 0;  // bags if pooled, ids if sequence
  int32_t dim = 0;
};

struct BlockPlan {
  std::vector<v1::Run> runs;
  int64_t byte_begin = 0;  // of the whole reply
  int64_t bytes = 0;
};

// Blocks of at most max(block_bytes, one row) bytes. Features are kept whole while they fit in a block; a larger one is
// cut by rows. Neighbours of equal shape share a run. Features without rows appear in no run.
std::vector<BlockPlan> PlanBlocks(absl::Span<const ReplyFeature> features, int64_t element_bytes, int64_t block_bytes);

// What the client wished, or the server's default, within [kMinFrameBytes, max].
int64_t BlockBytes(uint32_t wished, int64_t default_bytes, int64_t max_bytes);

}  // namespace embps
