// The input exchange of a lookup, as one rank takes part in it: ids, bag bounds and weights go from the home parts to
// the ranks whose shards hold the rows.
//   whole tables and column slices   the table's own arrays, every home part to each owner
//   row-wise                         bucketized first; lengths travel, the owner rebuilds offsets
//   copies                           nothing moves, each rank looks up its own home part
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

// Bags or ids of one feature that this rank's shards look up, valid once the stream has run the exchange.
struct RankFeature {
  int32_t feature = 0;
  int64_t slot_count = 0;
  int64_t id_count = 0;               // ids served
  const int64_t* offsets = nullptr;   // [slot_count + 1] into ids; null for a sequence feature
  const int64_t* ids = nullptr;       // pooled: indexed by offsets; sequence: [slot_count]
  const float* weights = nullptr;     // beside ids, or null
  const int64_t* divisors = nullptr;  // [slot_count] of a MEAN feature whose bags are split over nodes, or null
  bool divide_by_length = false;      // MEAN of bags that lie wholly here
  bool partial = false;               // fp32 partial sums, not divided: the home rank finishes them
};

// Where the rows that come back from owner o belong: [o], indices into the ids of the feature's table.
struct RowPositions {
  int32_t feature = 0;
  std::vector<const int64_t*> of_owner;  // [W]
};

class LookupExchange {
 public:
  // Plans everything and takes the memory; nothing is written before Run. All arguments but `take` must outlive it.
  LookupExchange(const wire::DecodedBatch& batch, absl::Span<const plan::NodeRoute> routes, const HomeParts& parts,
                 int rank, TakeScratch take);

  // Enqueues the exchange. Every rank calls it, whatever it has to send.
  void Run(kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const;

  // Ascending by feature.
  absl::Span<const RankFeature> features() const { return features_; }
  // Of row-wise sequence features, ascending by feature.
  absl::Span<const RowPositions> positions() const { return positions_; }

 private:
  struct TableArrays {
    int64_t* offsets = nullptr;  // [S + 1]; null until the first feature needs it
    int64_t* ids = nullptr;      // [N]
    float* weights = nullptr;
    int64_t* divisors = nullptr;
  };
  void PlanWhole(int32_t f, TakeScratch take);
  void RecvWhole(int32_t f, TakeScratch take);
  void PlanCopies(int32_t f);
  void SendRows(int32_t f, TakeScratch take);
  void RecvRows(int32_t f, TakeScratch take);
  const wire::FeatureSlice& feature(int32_t f) const { return batch_.features[static_cast<size_t>(f)]; }
  const wire::TableSlice& table(int32_t f) const { return batch_.tables[static_cast<size_t>(feature(f).table)]; }
  const plan::NodeRoute& route(int32_t f) const { return routes_[static_cast<size_t>(feature(f).table)]; }

  const wire::DecodedBatch& batch_;
  const absl::Span<const plan::NodeRoute> routes_;
  const HomeParts& parts_;
  const int rank_;

  std::vector<TableArrays> tables_;                    // [T] of whole tables this rank owns a part of
  std::vector<std::vector<kernels::Bucket>> buckets_;  // of each bucketize task
  std::vector<kernels::BucketizeTask> bucketize_;
  TransferList transfers_;
  std::vector<kernels::OffsetsTask> offsets_;
  std::vector<RankFeature> features_;
  std::vector<RowPositions> positions_;
};

}  // namespace embps
