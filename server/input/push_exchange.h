// The gradient exchange of a push, as one rank takes part in it: gradients are prepared at home, then they and their
// ids go to every rank whose shards hold the rows. Each owner restores (feature, sample, position) order; nothing is
// summed on the way.
//   whole tables     everything to the owner; column slices: each its columns
//   row-wise         ids bucketized, gradients to all ranks
//   copies           everything to all ranks
#pragma once
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kernels/api/backend.h"
#include "server/collective/collective.h"
#include "server/collective/transfer_list.h"
#include "server/input/home_parts.h"

namespace embps {

// Memory for the duration of a flow, 64-byte aligned; bytes >= 0.
using TakeScratch = absl::FunctionRef<void*(int64_t bytes)>;

// What is done to the gradients of one table before they are summed.
struct GradScale {
  float scale = 1.0f;
  float max_gradient = 0.0f;  // 0 = no clamp
};

// Adds the task for slots [slot, slot + count) of a table, unless it would change nothing.
void AppendGradPrepare(const wire::TableSlice& table, const GradScale& scale, int64_t slot, int64_t count,
                       std::vector<kernels::GradPrepareTask>& tasks);

// Gradients of a column slice that this rank holds.
struct SliceGrads {
  const float* grads = nullptr;  // [slot_count, columns] at a stride of `stride` elements
  int64_t stride = 0;
};

// Ids and gradients of one table for this rank's shards, valid once the stream has run the exchange.
struct RankTable {
  int32_t table = 0;
  int64_t slot_count = 0;
  int64_t id_count = 0;
  const int64_t* offsets = nullptr;  // [slot_count + 1]
  const int64_t* ids = nullptr;      // [id_count] local rows
  const float* weights = nullptr;    // [id_count] or null
  std::vector<SliceGrads> slices;    // of the rank's shards, ascending columns
};

class PushExchange {
 public:
  // As LookupExchange. scales: [T].
  PushExchange(const wire::DecodedBatch& batch, absl::Span<const plan::NodeRoute> routes, const HomeParts& parts,
               absl::Span<const GradScale> scales, int rank, TakeScratch take);

  void Run(kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const;

  // Ascending by table; only tables that have shards on this rank.
  absl::Span<const RankTable> tables() const { return tables_; }

 private:
  void AddTable(int32_t t, TakeScratch take);
  void SendWhole(int32_t f, TakeScratch take);
  void SendGrads(int32_t f, int owner, TakeScratch take);
  void RecvWhole(int32_t f);
  void SendRows(int32_t f, TakeScratch take);
  void RecvRows(int32_t f);
  // Writable views of what tables() shows.
  struct Arrays {
    int64_t* lengths = nullptr;  // [S], row-wise only
    int64_t* offsets = nullptr;
    int64_t* ids = nullptr;
    float* weights = nullptr;
    std::vector<float*> grads;  // by slice of this rank
    int64_t slots_planned = 0, ids_planned = 0;
  };
  const wire::FeatureSlice& feature(int32_t f) const { return batch_.features[static_cast<size_t>(f)]; }
  const wire::TableSlice& table(int32_t f) const { return batch_.tables[static_cast<size_t>(feature(f).table)]; }
  const plan::NodeRoute& route(int32_t f) const { return routes_[static_cast<size_t>(feature(f).table)]; }
  Arrays& arrays(int32_t f) { return arrays_[static_cast<size_t>(feature(f).table)]; }

  const wire::DecodedBatch& batch_;
  const absl::Span<const plan::NodeRoute> routes_;
  const HomeParts& parts_;
  const int rank_;

  std::vector<Arrays> arrays_;  // [T]
  std::vector<kernels::GradPrepareTask> prepare_;
  std::vector<std::vector<kernels::Bucket>> buckets_;
  std::vector<kernels::BucketizeTask> bucketize_;
  std::vector<kernels::PermuteTask> pack_;
  TransferList transfers_;
  std::vector<kernels::OffsetsTask> offsets_;
  std::vector<RankTable> tables_;
};

}  // namespace embps
