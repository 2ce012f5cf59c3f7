// The compute half of a push: what the lanes run on the shards of each rank. Planned, with all memory, before the
// ticket is taken.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/api/backend.h"
#include "server/collective/collective.h"
#include "server/flow/lookup_tokens.h"
#include "server/flow/scratch_arena.h"
#include "server/flow/table_set.h"
#include "server/input/home_parts.h"
#include "server/input/push_exchange.h"

namespace embps {

// Fixed when the ticket is taken.
struct TableStep {
  float learning_rate = 0;
  int64_t step = 0;  // t of this push, from 1
};

class PushRanks {
 public:
  // Everything must outlive this. kept: the lookup whose ids the batch borrows, with its sorted plans; or null.
  // scales: [T]. Look at status() before Run.
  PushRanks(kernels::Backend& backend, const wire::DecodedBatch& batch, const TableSet& tables, int rank_count,
            absl::Span<const GradScale> scales, const KeptLookup* kept);
  ~PushRanks();

  // Upper bound on the scratch taken, from the header alone; layout as after the decoder's Begin.
  static int64_t BytesBound(kernels::Backend& backend, const wire::DecodedBatch& layout, const TableSet& tables,
                            bool weighted, int rank_count);

  absl::Status status() const;

  // On the lane of `rank`: enqueues its part. steps: [T]. observer may be null.
  void Run(int rank, kernels::Backend& backend, Collective& collective, absl::Span<const TableStep> steps,
           WriteObserver* observer, kernels::Stream& stream);

  // After all ranks are done: what was written, a row once however many column slices or copies it has here.
  kernels::UpdateCounts CountsOf(int32_t table) const;
  // Ids that the shards of each rank served, into the tables' counters.
  void CountIdsServed() const;

 private:
  struct ShardUpdate;
  struct TableWork;
  struct Rank;
  void PlanDirect(Rank& rank, absl::Span<const GradScale> scales, const KeptLookup* kept);
  void AddTable(Rank& rank, const RankTable& input, const void* sorted);

  kernels::Backend& backend_;
  const wire::DecodedBatch& batch_;
  const TableSet& tables_;
  absl::Status local_status_;
  LocalIds local_ids_;                        // one rank, without a kept lookup
  HomeParts parts_;                           // several ranks
  std::vector<std::unique_ptr<Rank>> ranks_;  // [W]
};

}  // namespace embps
