// Cuts a decoded batch into the home parts of the node's ranks and counts, on the host, what the exchange will move: no
// size is ever read back from a stream.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/plan/node_route.h"
#include "proto/wire/batch_layout.h"

namespace embps {

struct HomeParts {
  int rank_count = 1;  // W
  // [F][W + 1] slots of the feature's table: home part q is [bounds[q], bounds[q + 1]).
  std::vector<std::vector<int64_t>> slot_bounds;
  // [F][W * W] ids of home part q that go to rank o at q * W + o; empty unless the feature's table is row-wise.
  std::vector<std::vector<int64_t>> bucket_counts;

  int64_t slots(int32_t feature, int home) const {
    const auto& bounds = slot_bounds[static_cast<size_t>(feature)];
    return bounds[static_cast<size_t>(home) + 1] - bounds[static_cast<size_t>(home)];
  }
  int64_t first_slot(int32_t feature, int home) const {
    return slot_bounds[static_cast<size_t>(feature)][static_cast<size_t>(home)];
  }
  int64_t bucket_count(int32_t feature, int home, int owner) const {
    return bucket_counts[static_cast<size_t>(feature)][static_cast<size_t>(home * rank_count + owner)];
  }
};

// routes: [T] of the batch's tables.
HomeParts CutHomeParts(const wire::DecodedBatch& batch, absl::Span<const plan::NodeRoute> routes, int rank_count);

}  // namespace embps
