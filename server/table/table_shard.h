// The memory of one shard: rows and optimizer state of one piece of a table on one rank.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "embps/v1/types.pb.h"
#include "kernels/api/backend.h"
#include "proto/plan/table_layout.h"

namespace embps {

class TableShard {
 public:
  // Bytes that a shard takes: row_count * (D_s * element bytes + 4 * (state0 width + state1 width)), where D_s are the
  // shard's columns and the widths those of its optimizer, plus at most 128 bytes of alignment. Nothing else is kept
  // per row: a table of 1 M rows of one FP32 column under SGD takes 4 MB.
  static int64_t BytesOf(const v1::TableSpec& spec, const plan::ShardRange& range);

  // Zero-filled. A shard without rows takes no memory. `spec` must be normalised. node_column: see below.
  static absl::StatusOr<std::unique_ptr<TableShard>> Allocate(kernels::Backend& backend, const v1::TableSpec& spec,
                                                              const plan::ShardRange& range, int32_t node_column);

  const plan::ShardRange& range() const { return range_; }
  // Local row 0 is range().row_begin, local column 0 is range().column_begin.
  const kernels::TableView& view() const { return view_; }
  // Where its columns lie among those that the node answers with: TableLayout::ColumnSlicesOf(node) side by side.
  int32_t node_column() const { return node_column_; }
  const kernels::StateWidths& state_widths() const { return state_widths_; }
  int64_t bytes() const { return memory_.has_value() ? memory_->bytes() : 0; }

 private:
  TableShard(const v1::TableSpec& spec, const plan::ShardRange& range, int32_t node_column,
             std::optional<kernels::Buffer> memory);

  const plan::ShardRange range_;
  const int32_t node_column_;
  const kernels::StateWidths state_widths_;
  const std::optional<kernels::Buffer> memory_;  // rows, state0, state1, each from a 64-byte boundary
  kernels::TableView view_;
};

// Told, on the shard's stream, which rows a push or WriteRows is about to change: the seam for snapshots and for
// tracking dirty rows. `local_rows` are distinct and ascending.
class WriteObserver {
 public:
  virtual ~WriteObserver() = default;
  virtual void BeforeWrite(const TableShard& shard, absl::Span<const int64_t> local_rows) = 0;
};

}  // namespace embps
