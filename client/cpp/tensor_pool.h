// Aligned host memory that is used again: a fresh tensor of some megabytes costs more in page faults than in copying.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "proto/base/mutex.h"

namespace embps::client {

inline constexpr size_t kTensorAlignment = 64;

// Thread-safe. Buffers may outlive the pool.
class TensorPool {
 public:
  // Keeps at most `kept_bytes` of returned buffers, the latest first.
  explicit TensorPool(size_t kept_bytes);

  // Not cleared. Null for 0 bytes. Comes back when the last reference goes.
  std::shared_ptr<char> Allocate(size_t bytes);

 private:
  struct Free;
  std::shared_ptr<Free> free_;
};

}  // namespace embps::client
