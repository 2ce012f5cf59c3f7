#include "server/table/table_shard.h"

#include <utility>

#include "proto/base/status_macros.h"
#include "server/table/table_kernels.h"

namespace embps {
namespace {

constexpr int64_t Aligned(int64_t bytes) { return (bytes + 63) & ~int64_t{63}; }

struct Sections {
  int64_t rows = 0, state0 = 0, state1 = 0;  // bytes

  int64_t total() const {
    if (state1 > 0) return Aligned(rows) + Aligned(state0) + state1;
    return state0 > 0 ? Aligned(rows) + state0 : rows;
  }
};

Sections SectionsOf(const v1::TableSpec& spec, const plan::ShardRange& range) {
  const int32_t dim = range.column_count();
  const kernels::StateWidths widths = kernels::StateWidthsOf(KernelOptimizerType(spec.optimizer().type()), dim);
  return {range.row_count() * dim * kernels::ElementBytes(KernelElementType(spec.row_type())),
          range.row_count() * widths.state0 * 4, range.row_count() * widths.state1 * 4};
}

}  // namespace

int64_t TableShard::BytesOf(const v1::TableSpec& spec, const plan::ShardRange& range) {
  return SectionsOf(spec, range).total();
}

absl::StatusOr<std::unique_ptr<TableShard>> TableShard::Allocate(kernels::Backend& backend, const v1::TableSpec& spec,
                                                                 const plan::ShardRange& range, int32_t node_column) {
  std::optional<kernels::Buffer> memory;
  if (const int64_t bytes = BytesOf(spec, range); bytes > 0) {
    EMBPS_ASSIGN_OR_RETURN(kernels::Buffer buffer, backend.AllocateTable(bytes));
    memory.emplace(std::move(buffer));
  }
  return std::unique_ptr<TableShard>(new TableShard(spec, range, node_column, std::move(memory)));
}

TableShard::TableShard(const v1::TableSpec& spec, const plan::ShardRange& range, int32_t node_column,
                       std::optional<kernels::Buffer> memory)
    : range_(range),
      node_column_(node_column),
      state_widths_(kernels::StateWidthsOf(KernelOptimizerType(spec.optimizer().type()), range.column_count())),
      memory_(std::move(memory)) {
  view_.type = KernelElementType(spec.row_type());
  view_.row_count = range.row_count();
  view_.dim = range.column_count();
  view_.row_base = range.row_begin;
  view_.column_base = range.column_begin;
  if (!memory_.has_value()) return;
  const Sections sections = SectionsOf(spec, range);
  char* at = memory_->as<char>();
  view_.rows = at;
  at += Aligned(sections.rows);
  if (sections.state0 > 0) view_.state0 = reinterpret_cast<float*>(at);
  at += Aligned(sections.state0);
  if (sections.state1 > 0) view_.state1 = reinterpret_cast<float*>(at);
}

}  // namespace embps
