// Memory of one flow: many small arrays out of few backend buffers, all let go of together.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/api/backend.h"

namespace embps {

class ScratchArena {
 public:
  ScratchArena(kernels::Backend& backend, kernels::MemoryKind kind) : backend_(backend), kind_(kind) {}

  // 64-byte aligned, uninitialised; bytes >= 0. Never fails: once the backend had no memory, the addresses lead nowhere
  // and status() says so. Whoever plans with them must look at status() before anything runs.
  void* Take(int64_t bytes);
  const absl::Status& status() const { return status_; }

 private:
  kernels::Backend& backend_;
  const kernels::MemoryKind kind_;
  absl::Status status_;
  std::vector<kernels::Buffer> chunks_;
  char* at_ = nullptr;  // free rest of the last shared chunk
  int64_t left_ = 0;
  int64_t next_chunk_ = int64_t{64} << 10;
};

}  // namespace embps
