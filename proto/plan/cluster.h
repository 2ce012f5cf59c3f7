// The ranks of a cluster and their two names: global rank q in [0, Q), and (node, rank within the node), node-major.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace embps::plan {

// Bounds of a cluster; also what a placement of at most 4096 shards can address row-wise.
inline constexpr int kMaxRanks = 4096;

// A rank by its node. Ordered node-major, as global ranks are.
struct RankId {
  int node = 0;
  int rank = 0;  // within the node

  friend bool operator==(const RankId&, const RankId&) = default;
  friend auto operator<=>(const RankId&, const RankId&) = default;
};

struct Cluster {
  std::vector<int> ranks_per_node;  // W of each node, >= 1

  // INVALID_ARGUMENT unless there is a node, every W >= 1, and Q <= kMaxRanks.
  absl::Status Validate() const;

  int node_count() const { return static_cast<int>(ranks_per_node.size()); }
  // Q.
  int rank_count() const;
  bool Contains(RankId id) const;

  // Global rank of the node's rank 0. node == node_count() gives Q.
  int FirstRankOf(int node) const;
  // `id` must be of this cluster.
  int GlobalRank(RankId id) const { return FirstRankOf(id.node) + id.rank; }
  // 0 <= global_rank < Q.
  RankId RankOf(int global_rank) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

}  // namespace embps::plan
