// Rows by global id between dense fp32 blocks and the shards of this node.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "embps/v1/table.pb.h"
#include "kernels/api/backend.h"
#include "server/flow/scratch_arena.h"
#include "server/table/table.h"

namespace embps {

// Of whole rows, before any cut of columns.
kernels::StateWidths WholeStateWidths(const Table& table);
// Bytes of one row in a ReadRows reply of this node.
int64_t ReadRowBytes(const Table& table, bool with_state);

// Dense fp32, [N, width] each; empty arrays for widths of 0.
struct RowValues {
  std::vector<float> rows, state0, state1;
};

// The part of each shard, planned before the ticket is taken.
class RowParts {
 public:
  absl::Status status() const { return arena_.status(); }
  void Run(int rank, kernels::Backend& backend, kernels::Stream& stream) const;
  // Before Run of a write.
  void Observe(int rank, WriteObserver& observer, kernels::Stream& stream) const;
  // After Run of a read on every rank: slices and blocks.
  void Fill(v1::ReadRowsResponse& response) const;

 private:
  friend std::unique_ptr<RowParts> PlanReadRows(kernels::Backend&, const Table&, std::vector<int64_t>, bool);
  friend std::unique_ptr<RowParts> PlanWriteRows(kernels::Backend&, const Table&, std::vector<int64_t>, RowValues,
                                                 bool);

  // One array (rows or a state) of one shard.
  struct Array {
    int which = 0;  // 0 rows, 1 state0, 2 state1
    int32_t width = 0;
    float* values = nullptr;  // [n, width]
  };
  struct Part {
    int rank = 0;
    const TableShard* shard = nullptr;
    int64_t* local = nullptr;        // [n] local rows
    std::vector<int64_t> positions;  // [n] indices into the request's ids
    std::vector<Array> arrays;
  };
  RowParts(kernels::Backend& backend, const Table& table, bool write)
      : table_(table), write_(write), arena_(backend, kernels::MemoryKind::kPinnedHost) {}
  void AddPart(int rank, const TableShard& shard, const std::vector<int64_t>& ids, bool with_state);
  void CopyIn(const RowValues& values);

  const Table& table_;
  const bool write_;
  ScratchArena arena_;
  int64_t row_count_ = 0;  // N
  std::vector<Part> parts_;
};

// Ids are of this node's rows. The table must outlive the result.
std::unique_ptr<RowParts> PlanReadRows(kernels::Backend& backend, const Table& table, std::vector<int64_t> ids,
                                       bool with_state);
// Ids are distinct. A state of one value per row goes to every column slice.
std::unique_ptr<RowParts> PlanWriteRows(kernels::Backend& backend, const Table& table, std::vector<int64_t> ids,
                                        RowValues values, bool with_state);

}  // namespace embps
