#include "kernels/cpu/scratch_pool.h"

#include <array>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/memory.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/mutex.h"

namespace embps::kernels::cpu {
namespace {

// Classes: 256 B, 512 B ... 64 KiB, then four per doubling, so that a large block wastes at most a quarter.
constexpr int kMinShift = 8;
constexpr int kFineShift = 16;
constexpr int kClassCount = (kFineShift - kMinShift) + 4 * (62 - kFineShift);
constexpr int64_t kMaxBytes = int64_t{1} << 48;

struct SizeClass {
  int index;
  int64_t block_bytes;
};

SizeClass ClassOf(int64_t bytes) {
  if (bytes <= int64_t{1} << kFineShift) {
    const int shift = bytes <= int64_t{1} << kMinShift ? kMinShift : std::bit_width(static_cast<uint64_t>(bytes - 1));
    return {shift - kMinShift, int64_t{1} << shift};
  }
  const int shift = std::bit_width(static_cast<uint64_t>(bytes - 1)) - 1;  // 2^shift < bytes <= 2^(shift + 1)
  const int64_t quarter = int64_t{1} << (shift - 2);
  const int64_t steps = (bytes - (int64_t{1} << shift) + quarter - 1) / quarter;  // 1 .. 4
  const int index = (kFineShift - kMinShift) + 4 * (shift - kFineShift) + static_cast<int>(steps);
  return {index, (int64_t{1} << shift) + steps * quarter};
}

}  // namespace

class ScratchPool::State {
 public:
  explicit State(const ScratchPoolOptions& options) : options_(options) {}
  ~State() {
    for (void* region : regions_) UnmapPages(region, kHugePageBytes);
    for (const auto& [data, bytes] : idle_large_) UnmapPages(data, bytes);
  }

  // Null when the system has no more memory.
  void* Take(const SizeClass& size) {
    MutexLock lock(&mu_);
    std::vector<void*>& free = free_[size.index];
    if (free.empty() && !Refill(size, free)) return nullptr;
    void* const data = free.back();
    free.pop_back();
    live_bytes_ += size.block_bytes;
    if (IsLarge(size)) RemoveIdle(data, size.block_bytes);
    return data;
  }

  void Return(void* data, const SizeClass& size) {
    MutexLock lock(&mu_);
    live_bytes_ -= size.block_bytes;
    if (!IsLarge(size)) {
      free_[size.index].push_back(data);
      return;
    }
    if (idle_large_bytes_ + size.block_bytes > options_.retained_bytes) {
      UnmapPages(data, size.block_bytes);
      mapped_bytes_ -= size.block_bytes;
      return;
    }
    free_[size.index].push_back(data);
    idle_large_.emplace_back(data, size.block_bytes);
    idle_large_bytes_ += size.block_bytes;
  }

  int64_t live_bytes() {
    MutexLock lock(&mu_);
    return live_bytes_;
  }
  int64_t mapped_bytes() {
    MutexLock lock(&mu_);
    return mapped_bytes_;
  }

 private:
  static bool IsLarge(const SizeClass& size) { return size.block_bytes >= kHugePageBytes; }

  bool Refill(const SizeClass& size, std::vector<void*>& free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int64_t bytes = IsLarge(size) ? size.block_bytes : kHugePageBytes;
    char* const region = static_cast<char*>(MapPages(bytes, options_.huge_pages));
    if (region == nullptr) return false;
    mapped_bytes_ += bytes;
    if (IsLarge(size)) {
      free.push_back(region);
      idle_large_.emplace_back(region, bytes);
      idle_large_bytes_ += bytes;
      return true;
    }
    regions_.push_back(region);
    for (int64_t at = bytes / size.block_bytes * size.block_bytes; at > 0; at -= size.block_bytes) {
      free.push_back(region + at - size.block_bytes);
    }
    return true;
  }

  void RemoveIdle(void* data, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    // The block is among those freed last: search from the back.
    for (auto it = idle_large_.rbegin(); it != idle_large_.rend(); ++it) {
      if (it->first != data) continue;
      idle_large_.erase(std::next(it).base());
      idle_large_bytes_ -= bytes;
      return;
    }
    EMBPS_CHECK(false);
  }

  const ScratchPoolOptions options_;

  Mutex mu_;
  std::array<std::vector<void*>, kClassCount> free_ ABSL_GUARDED_BY(mu_);
  std::vector<void*> regions_ ABSL_GUARDED_BY(mu_);                         // 2 MiB each, carved into small blocks
  std::vector<std::pair<void*, int64_t>> idle_large_ ABSL_GUARDED_BY(mu_);  // large blocks that lie in free_
  int64_t idle_large_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t live_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t mapped_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

ScratchPool::ScratchPool(const ScratchPoolOptions& options) : state_(std::make_shared<State>(options)) {}

absl::StatusOr<Buffer> ScratchPool::Allocate(MemoryKind kind, int64_t bytes) {
  EMBPS_CHECK(bytes >= 0);
  void* data = nullptr;
  if (bytes <= kMaxBytes) {
    const SizeClass size = ClassOf(bytes);
    data = state_->Take(size);
    if (data != nullptr) {
      return Buffer(data, bytes, kind, [state = state_, size](void* block, int64_t) { state->Return(block, size); });
    }
  }
  return MakeError(Reason::kMemoryFull, absl::StrCat("no memory for a scratch buffer of ", bytes, " bytes"),
                   {{"asked_bytes", absl::StrCat(bytes)}, {"used_bytes", absl::StrCat(state_->live_bytes())}});
}

int64_t ScratchPool::BlockBytes(int64_t bytes) { return ClassOf(bytes).block_bytes; }
int64_t ScratchPool::live_bytes() const { return state_->live_bytes(); }
int64_t ScratchPool::mapped_bytes() const { return state_->mapped_bytes(); }

}  // namespace embps::kernels::cpu
