// The one seam through which kernels use more than one core.
#pragma once
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace embps::kernels {

class ParallelFor {
 public:
  virtual ~ParallelFor() = default;
  // Cores that Run may use, >= 1. Kernels cut work into about this many pieces, or a small multiple.
  virtual int worker_count() const = 0;
  // Calls body(0) ... body(count - 1), each exactly once, in any order and on any thread; returns when all have run.
  // May be called from several threads at once; body must not call Run.
  virtual void Run(int64_t count, absl::FunctionRef<void(int64_t)> body) = 0;
};

// Everything on the calling thread.
class SerialFor final : public ParallelFor {
 public:
  int worker_count() const override { return 1; }
  void Run(int64_t count, absl::FunctionRef<void(int64_t)> body) override {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
};

}  // namespace embps::kernels
