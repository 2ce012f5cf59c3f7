#include "proto/plan/cluster.h"

#include <cstddef>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/error.h"

namespace embps::plan {

absl::Status Cluster::Validate() const {
  if (ranks_per_node.empty()) return MakeError(Reason::kMalformed, "cluster: no nodes");
  int64_t total = 0;
  for (size_t node = 0; node < ranks_per_node.size(); ++node) {
    if (ranks_per_node[node] < 1) {
      return MakeError(Reason::kMalformed, absl::StrCat("cluster: node ", node, " has ", ranks_per_node[node],
                                                        " ranks, at least 1 needed"));
    }
    total += ranks_per_node[node];
  }
  if (total > kMaxRanks) {
    return MakeError(Reason::kMalformed, absl::StrCat("cluster: ", total, " ranks, at most ", kMaxRanks));
  }
  return absl::OkStatus();
}

int Cluster::rank_count() const { return std::accumulate(ranks_per_node.begin(), ranks_per_node.end(), 0); }

bool Cluster::Contains(RankId id) const {
  return id.node >= 0 && id.node < node_count() && id.rank >= 0 && id.rank < ranks_per_node[id.node];
}

int Cluster::FirstRankOf(int node) const {
  EMBPS_CHECK(node >= 0 && node <= node_count());
  return std::accumulate(ranks_per_node.begin(), ranks_per_node.begin() + node, 0);
}

RankId Cluster::RankOf(int global_rank) const {
  EMBPS_CHECK(global_rank >= 0);
  RankId id{0, global_rank};
  while (id.node < node_count() && id.rank >= ranks_per_node[id.node]) id.rank -= ranks_per_node[id.node++];
  EMBPS_CHECK(id.node < node_count());
  return id;
}

}  // namespace embps::plan
