#include "server/flow/row_parts.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "server/table/table_kernels.h"

namespace embps {
namespace {

int32_t WidthOf(const TableShard& shard, int which) {
  if (which == 0) return shard.range().column_count();
  return which == 1 ? shard.state_widths().state0 : shard.state_widths().state1;
}

void* DataOf(const TableShard& shard, int which) {
  if (which == 0) return shard.view().rows;
  return which == 1 ? shard.view().state0 : shard.view().state1;
}

// The column slices of this node, ascending; row shards and copies all have the same one.
std::vector<plan::ShardRange> SlicesOf(const Table& table) {
  if (table.layout().type() == v1::SHARDING_TYPE_COLUMN_WISE) return table.layout().ColumnSlicesOf(table.node());
  plan::ShardRange whole;
  whole.column_end = table.spec().dim();
  return {whole};
}

bool Copies(const Table& table) { return table.layout().type() == v1::SHARDING_TYPE_DATA_PARALLEL; }

}  // namespace

kernels::StateWidths WholeStateWidths(const Table& table) {
  return kernels::StateWidthsOf(KernelOptimizerType(table.spec().optimizer().type()), table.spec().dim());
}

int64_t ReadRowBytes(const Table& table, bool with_state) {
  int64_t bytes = table.node_dim() * int64_t{4};
  if (!with_state) return bytes;
  for (const plan::ShardRange& slice : SlicesOf(table)) {
    const auto widths =
        kernels::StateWidthsOf(KernelOptimizerType(table.spec().optimizer().type()), slice.column_count());
    bytes += (widths.state0 + widths.state1) * int64_t{4};
  }
  return bytes;
}

void RowParts::AddPart(int rank, const TableShard& shard, const std::vector<int64_t>& ids, bool with_state) {
  Part part;
  part.rank = rank;
  part.shard = &shard;
  const plan::ShardRange& range = shard.range();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= range.row_begin && ids[i] < range.row_end) part.positions.push_back(static_cast<int64_t>(i));
  }
  const auto n = static_cast<int64_t>(part.positions.size());
  part.local = static_cast<int64_t*>(arena_.Take(n * int64_t{sizeof(int64_t)}));
  for (int which = 0; which < (with_state ? 3 : 1); ++which) {
    const int32_t width = WidthOf(shard, which);
    if (width == 0) continue;
    part.arrays.push_back({which, width, static_cast<float*>(arena_.Take(n * width * int64_t{sizeof(float)}))});
  }
  parts_.push_back(std::move(part));
  if (!arena_.status().ok()) return;
  for (int64_t i = 0; i < n; ++i) {
    parts_.back().local[i] =
        ids[static_cast<size_t>(parts_.back().positions[static_cast<size_t>(i)])] - range.row_begin;
  }
}

// Columns of a slice from the whole row; a value per row as it is.
void RowParts::CopyIn(const RowValues& values) {
  const std::vector<float>* const sources[] = {&values.rows, &values.state0, &values.state1};
  for (const Part& part : parts_) {
    for (const Array& array : part.arrays) {
      const std::vector<float>& source = *sources[array.which];
      if (row_count_ == 0) continue;
      const int64_t width = static_cast<int64_t>(source.size()) / row_count_;
      const int64_t column = width == 1 ? 0 : part.shard->range().column_begin;
      for (size_t i = 0; i < part.positions.size(); ++i) {
        std::copy_n(source.data() + part.positions[i] * width + column, array.width,
                    array.values + static_cast<int64_t>(i) * array.width);
      }
    }
  }
}

void RowParts::Run(int rank, kernels::Backend& backend, kernels::Stream& stream) const {
  std::vector<kernels::RowCopyTask> tasks;
  for (const Part& part : parts_) {
    if (part.rank != rank || part.positions.empty()) continue;
    for (const Array& array : part.arrays) {
      kernels::RowCopyTask task;
      task.table = DataOf(*part.shard, array.which);
      task.type = array.which == 0 ? part.shard->view().type : kernels::ElementType::kFp32;
      task.dim = array.width;
      task.ids = part.local;
      task.id_count = static_cast<int64_t>(part.positions.size());
      task.values = array.values;
      task.value_stride = array.width;
      task.write = write_;
      tasks.push_back(task);
    }
  }
  backend.RowCopy(tasks, stream);
}

void RowParts::Observe(int rank, WriteObserver& observer, kernels::Stream& stream) const {
  for (const Part& part : parts_) {
    if (part.rank != rank || part.positions.empty()) continue;
    stream.Enqueue([&observer, &part] {
      std::vector<int64_t> rows(part.local, part.local + part.positions.size());
      std::sort(rows.begin(), rows.end());
      observer.BeforeWrite(*part.shard, rows);
      return absl::OkStatus();
    });
  }
}

// Parts of one column slice (row shards have the same columns) make up one block per array.
void RowParts::Fill(v1::ReadRowsResponse& response) const {
  std::string* const blocks[] = {response.mutable_rows(), response.mutable_state0(), response.mutable_state1()};
  for (const plan::ShardRange& slice : SlicesOf(table_)) {
    v1::RowSlice& out = *response.add_slices();
    out.set_column_begin(slice.column_begin);
    out.set_column_end(slice.column_end);
    size_t begins[] = {blocks[0]->size(), blocks[1]->size(), blocks[2]->size()};
    for (const Part& part : parts_) {
      if (part.shard->range().column_begin != slice.column_begin) continue;
      for (const Array& array : part.arrays) {
        if (array.which == 1) out.set_state0_width(array.width);
        if (array.which == 2) out.set_state1_width(array.width);
        const size_t row_bytes = static_cast<size_t>(array.width) * sizeof(float);
        std::string& block = *blocks[array.which];
        block.resize(begins[array.which] + static_cast<size_t>(row_count_) * row_bytes);
        for (size_t i = 0; i < part.positions.size(); ++i) {
          std::memcpy(block.data() + begins[array.which] + static_cast<size_t>(part.positions[i]) * row_bytes,
                      array.values + i * static_cast<size_t>(array.width), row_bytes);
        }
      }
    }
  }
}

std::unique_ptr<RowParts> PlanReadRows(kernels::Backend& backend, const Table& table, std::vector<int64_t> ids,
                                       bool with_state) {
  auto parts = std::unique_ptr<RowParts>(new RowParts(backend, table, /*write=*/false));
  parts->row_count_ = static_cast<int64_t>(ids.size());
  const int ranks = Copies(table) ? 1 : table.rank_count();
  for (int rank = 0; rank < ranks; ++rank) {
    for (const auto& shard : table.shards(rank)) parts->AddPart(rank, *shard, ids, with_state);
  }
  return parts;
}

std::unique_ptr<RowParts> PlanWriteRows(kernels::Backend& backend, const Table& table, std::vector<int64_t> ids,
                                        RowValues values, bool with_state) {
  auto parts = std::unique_ptr<RowParts>(new RowParts(backend, table, /*write=*/true));
  parts->row_count_ = static_cast<int64_t>(ids.size());
  for (int rank = 0; rank < table.rank_count(); ++rank) {
    for (const auto& shard : table.shards(rank)) parts->AddPart(rank, *shard, ids, with_state);
  }
  if (parts->status().ok()) parts->CopyIn(values);
  return parts;
}

}  // namespace embps
