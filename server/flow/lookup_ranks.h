// The compute half of a lookup: tasks for the shards of this node, on one rank straight from the batch, on several
// between the two exchanges.
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
#include "server/input/lookup_exchange.h"
#include "server/output/output_exchange.h"

namespace embps {

// Sizes of a GradSort over a whole table of the batch, on a node with one rank.
kernels::GradShape GradShapeOf(const wire::TableSlice& slice, const Table& table);

// One rank: rows of features straight into a reply block. Collects tasks, then runs them as one batch.
class DirectLookup {
 public:
  DirectLookup(const KeptLookup& input, const TableSet& tables, kernels::ElementType type)
      : input_(input), tables_(tables), type_(type) {}

  // Rows [row_begin, row_begin + rows) of feature f to `out`, dense.
  void Add(int32_t f, int64_t row_begin, int64_t rows, void* out);
  void Run(kernels::Backend& backend, kernels::Stream& stream) const;

 private:
  const KeptLookup& input_;
  const TableSet& tables_;
  const kernels::ElementType type_;
  std::vector<kernels::PooledLookupTask> pooled_;
  std::vector<kernels::SequenceLookupTask> sequence_;
};

// Several ranks: everything that the lanes will run, planned and with its memory before the ticket is taken, so that no
// rank can fail to take part. Read-only while the lanes run.
class LookupRanks {
 public:
  // batch and tables must outlive this. Look at status() before Run.
  LookupRanks(kernels::Backend& backend, const wire::DecodedBatch& batch, const TableSet& tables, int rank_count,
              kernels::ElementType type);
  ~LookupRanks();

  // Upper bound on the scratch taken beside the reply, from the header alone; layout as after the decoder's Begin.
  static int64_t BytesBound(const wire::DecodedBatch& layout, absl::Span<const plan::NodeRoute> routes,
                            int64_t output_elements, int rank_count);

  absl::Status status() const;
  // The whole reply: feature-major, features one after another.
  std::shared_ptr<void> reply_memory() const { return reply_; }
  char* reply_data() const { return static_cast<char*>(reply_.get()); }

  // On the lane of `rank`: enqueues its part.
  void Run(int rank, kernels::Backend& backend, Collective& collective, kernels::Stream& stream) const;

  void CountIdsServed(const TableSet& tables) const;

 private:
  struct Rank;
  void AddLookups(Rank& rank, const TableSet& tables);

  const wire::DecodedBatch& batch_;
  const kernels::ElementType type_;
  const HomeParts parts_;
  absl::Status reply_status_;
  std::shared_ptr<void> reply_;
  std::vector<char*> reply_rows_;  // [F]
  ReplyShape reply_shape_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // [W]
};

}  // namespace embps
