#include "server/flow/scratch_arena.h"

#include <algorithm>
#include <utility>

namespace embps {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kMaxSharedChunk = int64_t{4} << 20;

}  // namespace

void* ScratchArena::Take(int64_t bytes) {
  const int64_t size = std::max<int64_t>(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  if (size > left_ && status_.ok()) {
    const bool own = size >= next_chunk_;
    absl::StatusOr<kernels::Buffer> chunk = backend_.AllocateScratch(kind_, own ? size : next_chunk_);
    if (!chunk.ok()) {
      status_ = chunk.status();
    } else {
      chunks_.push_back(*std::move(chunk));
      if (own) return chunks_.back().data();
      at_ = chunks_.back().as<char>();
      left_ = next_chunk_;
      next_chunk_ = std::min(kMaxSharedChunk, next_chunk_ * 2);
    }
  }
  if (!status_.ok()) return reinterpret_cast<void*>(kAlign);
  left_ -= size;
  return std::exchange(at_, at_ + size);
}

}  // namespace embps
