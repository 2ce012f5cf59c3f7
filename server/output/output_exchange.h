// The output exchange of a lookup, as one rank takes part in it: rows that shards looked up go to the home ranks of
// their bags, which finish them and put them into the reply.
//   whole tables      rows straight into the reply; column slices through a buffer into their columns
//   row-wise pooled   partial sums of all ranks, added in rank order, then divided and converted
//   row-wise sequence rows back to the places of their ids
//   copies            are in the reply already
#pragma once
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kernels/api/backend.h"
#include "proto/plan/node_route.h"
#include "proto/wire/batch_layout.h"
#include "server/collective/collective.h"
#include "server/collective/transfer_list.h"

namespace embps {

// Memory for the duration of a flow, 64-byte aligned; bytes >= 0.
using TakeScratch = absl::FunctionRef<void*(int64_t bytes)>;

// What all ranks of a lookup agree on. Borrowed.
struct ReplyShape {
  const wire::DecodedBatch* batch = nullptr;
  absl::Span<const plan::NodeRoute> routes;              // [T]
  absl::Span<const std::vector<int64_t>> slot_bounds;    // [F][W + 1], as HomeParts
  absl::Span<const std::vector<int64_t>> bucket_counts;  // [F][W * W], as HomeParts
  int rank_count = 1;                                    // W
  kernels::ElementType type = kernels::ElementType::kFp32;
  absl::Span<char* const> rows;  // [F] the feature's rows of the reply, [slot_count, dim] dense
};

// Rows that one shard of this rank looked up, dense.
//   whole     [slot_count, width of the slice], output type
//   row-wise  pooled [slot_count, D] fp32; sequence [ids of this rank, D], output type; both in (home, slot) order
struct ShardRows {
  int32_t feature = 0;
  const void* rows = nullptr;
};

// The way back of a row-wise sequence feature of this rank's home part: where the rows from owner o belong, as indices
// into the ids of the feature's table.
struct HomePositions {
  int32_t feature = 0;
  absl::Span<const int64_t* const> of_owner;  // [W]
};

class OutputExchange {
 public:
  // mine: ascending by feature, then by column; features of copies are not in it. positions: ascending by feature.
  // Plans everything and takes the memory; nothing is written before Run. shape must outlive this.
  OutputExchange(const ReplyShape& shape, int rank, absl::Span<const ShardRows> mine,
                 absl::Span<const HomePositions> positions, TakeScratch take);

  // Enqueues the exchange. Every rank calls it, whatever it has to send.
  void Run(kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const;

 private:
  struct ZeroFill {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  void SendWhole(const ShardRows& rows, const plan::RouteSlice& slice);
  void SendPartials(const ShardRows& rows);
  void SendSequence(const ShardRows& rows);
  void RecvWhole(int32_t f, TakeScratch take);
  void RecvPartials(int32_t f, TakeScratch take);
  void RecvSequence(const HomePositions& positions, TakeScratch take);
  const wire::FeatureSlice& feature(int32_t f) const { return shape_.batch->features[static_cast<size_t>(f)]; }
  const wire::TableSlice& table(int32_t f) const { return shape_.batch->tables[static_cast<size_t>(feature(f).table)]; }
  const plan::NodeRoute& route(int32_t f) const { return shape_.routes[static_cast<size_t>(feature(f).table)]; }
  int64_t slots(int32_t f, int home) const;
  int64_t bucket_count(int32_t f, int home, int owner) const;
  // Rows of this rank's home part in the reply.
  char* HomeRows(int32_t f) const;
  int64_t element_bytes() const { return kernels::ElementBytes(shape_.type); }

  const ReplyShape& shape_;
  const int rank_;

  TransferList transfers_;
  std::vector<ZeroFill> zero_fill_;
  std::vector<std::vector<const float*>> parts_;  // of each reduce task
  std::vector<kernels::ReducePartialsTask> reduce_;
  std::vector<kernels::PermuteTask> place_;
  std::vector<kernels::ScatterRowsTask> scatter_;
};

}  // namespace embps
