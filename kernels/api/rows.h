// init_rows and row_copy.
#pragma once
#include "kernels/api/types.h"

namespace embps::kernels {

enum class InitializerKind : uint8_t { kUniform, kNormal, kConstant };

// Fills rows [first_row, first_row + count) of the shard; their state becomes zero. The value of (row, column) depends
// on key, global row and global column only. Rounded to nearest. Formula: kernels/math/initializer.h.
struct InitRowsTask {
  TableView table;
  StateWidths state_widths;  // of the table's optimizer; memory of a width of 0 is left alone
  int64_t first_row = 0;
  int64_t count = 0;
  InitializerKind kind = InitializerKind::kUniform;
  float a = 0.0f;  // UNIFORM: lower bound; NORMAL: standard deviation; CONSTANT: the value
  float b = 0.0f;  // UNIFORM: upper bound
  uint64_t key = 0;
};

// Rows between a shard and a dense fp32 block, with conversion (to nearest, saturating).
struct RowCopyTask {
  void* table = nullptr;  // [R, D] of `type`: the rows, or a state array as kFp32
  ElementType type = ElementType::kFp32;
  int32_t dim = 0;
  const int64_t* ids = nullptr;  // [N] local rows; distinct when writing
  int64_t id_count = 0;
  float* values = nullptr;   // [N, D]
  int64_t value_stride = 0;  // elements, >= D
  bool write = false;        // values -> table, else table -> values
};

}  // namespace embps::kernels
