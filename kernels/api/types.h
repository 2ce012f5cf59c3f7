// Words that all operations share. Dimension letters, the same everywhere: B bags, L ids, D row width in elements,
// R rows of a shard, N entries, W ranks.
#pragma once
#include <cstdint>

namespace embps::kernels {

enum class ElementType : uint8_t { kFp32, kFp16, kBf16 };

constexpr int64_t ElementBytes(ElementType type) { return type == ElementType::kFp32 ? 4 : 2; }

enum class OptimizerType : uint8_t {
  kSgd,
  kAdagrad,
  kRowwiseAdagrad,
  kAdam,
  kPartialRowwiseAdam,
  kLamb,
  kPartialRowwiseLamb,
  kLarsSgd,
};
inline constexpr int kOptimizerCount = 8;

enum class WeightDecayMode : uint8_t { kNone, kL2, kDecoupled };

// fp32 values of optimizer state per row: state0 and state1, each 0, 1 or D wide.
struct StateWidths {
  int32_t state0 = 0;
  int32_t state1 = 0;
};

constexpr StateWidths StateWidthsOf(OptimizerType type, int32_t dim) {
  switch (type) {
    case OptimizerType::kSgd:
      return {0, 0};
    case OptimizerType::kAdagrad:
      return {dim, 0};
    case OptimizerType::kRowwiseAdagrad:
      return {1, 0};
    case OptimizerType::kAdam:
    case OptimizerType::kLamb:
      return {dim, dim};
    case OptimizerType::kPartialRowwiseAdam:
    case OptimizerType::kPartialRowwiseLamb:
      return {dim, 1};
    case OptimizerType::kLarsSgd:
      return {dim, 0};
  }
  return {0, 0};
}

// The memory of one shard: R rows of D elements and their optimizer state. Borrowed; the shard owns it.
struct TableView {
  void* rows = nullptr;     // [R, D] of `type`
  float* state0 = nullptr;  // [R, state0 width], null when the width is 0
  float* state1 = nullptr;  // [R, state1 width]
  ElementType type = ElementType::kFp32;
  int64_t row_count = 0;    // R
  int32_t dim = 0;          // D of the slice
  int64_t row_base = 0;     // global row of local row 0
  int32_t column_base = 0;  // global column of local column 0
};

}  // namespace embps::kernels
