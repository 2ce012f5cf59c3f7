#include "client/cpp/tensor_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace embps::client {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

struct Block {
  char* data = nullptr;
  size_t capacity = 0;
};

size_t CapacityFor(size_t bytes) {
  const size_t unit = bytes >= kHugePage ? kHugePage : 4096;
  return (bytes + unit - 1) / unit * unit;
}

Block NewBlock(size_t capacity) {
  const size_t alignment = capacity >= kHugePage ? kHugePage : kTensorAlignment;
  char* data = static_cast<char*>(::operator new(capacity, std::align_val_t(alignment)));
  if (capacity >= kHugePage) madvise(data, capacity, MADV_HUGEPAGE);
  return {data, capacity};
}

void DeleteBlock(const Block& block) {
  const size_t alignment = block.capacity >= kHugePage ? kHugePage : kTensorAlignment;
  ::operator delete(block.data, std::align_val_t(alignment));
}

}  // namespace

struct TensorPool::Free {
  explicit Free(size_t kept_bytes) : kept_bytes(kept_bytes) {}
  ~Free() {
    for (const Block& block : blocks) DeleteBlock(block);
  }

  // The latest returned block that fits and wastes at most half of itself.
  Block Take(size_t capacity) {
    MutexLock lock(&mu);
    for (size_t i = blocks.size(); i-- > 0;) {
      const Block block = blocks[i];
      if (block.capacity < capacity || block.capacity / 2 > capacity) continue;
      blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(i));
      bytes -= block.capacity;
      return block;
    }
    return {};
  }

  void Return(const Block& block) {
    std::vector<Block> evicted;
    {
      MutexLock lock(&mu);
      blocks.push_back(block);
      bytes += block.capacity;
      while (bytes > kept_bytes) {
        evicted.push_back(blocks.front());
        bytes -= blocks.front().capacity;
        blocks.erase(blocks.begin());
      }
    }
    for (const Block& old : evicted) DeleteBlock(old);
  }

  const size_t kept_bytes;
  Mutex mu;
  std::vector<Block> blocks ABSL_GUARDED_BY(mu);  // oldest first
  size_t bytes ABSL_GUARDED_BY(mu) = 0;
};

TensorPool::TensorPool(size_t kept_bytes) : free_(std::make_shared<Free>(kept_bytes)) {}

std::shared_ptr<char> TensorPool::Allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  const size_t capacity = CapacityFor(bytes);
  Block block = free_->Take(capacity);
  if (block.data == nullptr) block = NewBlock(capacity);
  return std::shared_ptr<char>(block.data, [free = free_, block](char*) { free->Return(block); });
}

}  // namespace embps::client
