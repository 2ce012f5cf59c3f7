// One table as this node knows it: identity, placement, the shards of this node's ranks, and what changes from push to
// push: learning rate and step.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "embps/v1/types.pb.h"
#include "proto/plan/table_layout.h"
#include "server/stats/stats.h"
#include "server/table/table_shard.h"

namespace embps {

// Shared by the store and by every flow that took its ticket while the table was there, so a drop frees the memory when
// the last of them has finished. All members are constant after construction but learning rate and step, which are
// written in ticket order only (under the ticket office's lock) and may be read at any time.
class Table {
 public:
  struct Parts {
    std::shared_ptr<void> memory_use;  // first: let go of after the memory
    uint64_t uid = 0;
    uint64_t placement_version = 1;
    v1::TableSpec spec;  // normalised
    v1::Placement placement;
    std::vector<std::vector<std::unique_ptr<TableShard>>> shards;  // [W][of the rank, by (row_begin, column_begin)]
    std::shared_ptr<TableCounters> counters;
  };
  Table(Parts parts, plan::TableLayout layout, int node);

  uint64_t uid() const { return parts_.uid; }
  uint64_t placement_version() const { return parts_.placement_version; }
  const v1::TableSpec& spec() const { return parts_.spec; }
  const v1::Placement& placement() const { return parts_.placement; }
  const plan::TableLayout& layout() const { return layout_; }
  int node() const { return node_; }
  const std::string& name() const { return name_; }  // "namespace/name", for error texts

  int rank_count() const { return static_cast<int>(parts_.shards.size()); }
  absl::Span<const std::unique_ptr<TableShard>> shards(int rank) const {
    return parts_.shards[static_cast<size_t>(rank)];
  }
  TableCounters& counters() const { return *parts_.counters; }
  // Of rows and state over all ranks of this node.
  int64_t bytes() const;
  // Columns that this node answers with and takes gradients for, and the first row and the end of the rows it holds.
  int32_t node_dim() const { return node_dim_; }
  plan::RowRange node_rows() const { return node_rows_; }

  float learning_rate() const { return learning_rate_.load(std::memory_order_relaxed); }
  int64_t step() const { return step_.load(std::memory_order_relaxed); }
  void set_learning_rate(float value) { learning_rate_.store(value, std::memory_order_relaxed); }
  void set_step(int64_t value) { step_.store(value, std::memory_order_relaxed); }

  // As on the wire.
  v1::Table ToProto() const;

 private:
  const Parts parts_;
  const plan::TableLayout layout_;
  const int node_;
  const std::string name_;
  const int32_t node_dim_;
  const plan::RowRange node_rows_;
  std::atomic<float> learning_rate_;
  std::atomic<int64_t> step_{0};
};

}  // namespace embps
