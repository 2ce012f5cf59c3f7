#include "proto/plan/table_layout.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/placement_builder.h"
#include "proto/plan/table_spec.h"

namespace embps::plan {
namespace {

std::string Describe(const ShardRange& shard) {
  return absl::StrCat("rows [", shard.row_begin, ", ", shard.row_end, ") columns [", shard.column_begin, ", ",
                      shard.column_end, ") on node ", shard.home.node, " rank ", shard.home.rank);
}

ShardRange FromMessage(const v1::Shard& shard) {
  return {{shard.node(), shard.rank()}, shard.row_begin(), shard.row_end(), shard.column_begin(), shard.column_end()};
}

std::vector<ShardRange> FromMessage(const v1::Placement& placement) {
  std::vector<ShardRange> shards;
  shards.reserve(placement.shards_size());
  for (const v1::Shard& shard : placement.shards()) shards.push_back(FromMessage(shard));
  return shards;
}

class PlacementCheck {
 public:
  PlacementCheck(const v1::TableSpec& spec, const v1::Placement& placement, const Cluster& cluster)
      : spec_(spec), type_(placement.sharding_type()), shards_(FromMessage(placement)), cluster_(cluster) {}

  absl::Status Run() const {
    if (shards_.empty()) return Refuse("no shards");
    if (shards_.size() > kMaxShards) {
      return Refuse(absl::StrCat(shards_.size(), " shards, at most ", kMaxShards));
    }
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (!cluster_.Contains(shards_[i].home)) return RefuseShard(i, "a rank that the cluster has");
    }
    // What COLUMN_WISE allows beyond its home is the only choice left to a placement; the rest follows from the first
    // shard, so the one right placement is built and compared.
    if (type_ == v1::SHARDING_TYPE_COLUMN_WISE) return CheckColumnSlices();
    PlacementOptions options;
    options.node = shards_[0].home.node;
    options.rank = shards_[0].home.rank;
    EMBPS_ASSIGN_OR_RETURN(const v1::Placement expected, MakePlacement(spec_, type_, cluster_, options));
    return CheckEqual(FromMessage(expected));
  }

 private:
  absl::Status Refuse(absl::string_view what) const {
    return MakeError(Reason::kMalformed,
                     absl::StrCat("placement of table '", QualifiedName(spec_), "', ", ShortName(type_), ": ", what));
  }

  absl::Status RefuseShard(size_t index, absl::string_view expected) const {
    return Refuse(absl::StrCat("shards[", index, "] is ", Describe(shards_[index]), ", expected ", expected));
  }

  absl::Status CheckEqual(const std::vector<ShardRange>& expected) const {
    for (size_t i = 0; i < std::min(expected.size(), shards_.size()); ++i) {
      if (shards_[i] != expected[i]) return RefuseShard(i, Describe(expected[i]));
    }
    if (shards_.size() == expected.size()) return absl::OkStatus();
    return Refuse(absl::StrCat(shards_.size(), " shards, expected ", expected.size()));
  }

  absl::Status CheckColumnSlices() const {
    int32_t next_column = 0;
    for (size_t i = 0; i < shards_.size(); ++i) {
      const ShardRange& shard = shards_[i];
      const bool adjoins = shard.row_begin == 0 && shard.row_end == spec_.row_count() &&
                           shard.column_begin == next_column && shard.column_end > next_column &&
                           shard.column_end <= spec_.dim();
      if (!adjoins) {
        return RefuseShard(i, absl::StrCat("rows [0, ", spec_.row_count(), ") and at least one column from ",
                                           next_column, " on, below ", spec_.dim()));
      }
      next_column = shard.column_end;
    }
    if (next_column == spec_.dim()) return absl::OkStatus();
    return Refuse(absl::StrCat("slices end at column ", next_column, ", dim is ", spec_.dim()));
  }

  const v1::TableSpec& spec_;
  const v1::ShardingType type_;
  const std::vector<ShardRange> shards_;
  const Cluster& cluster_;
};

}  // namespace

absl::StatusOr<TableLayout> TableLayout::Create(const v1::TableSpec& spec, const v1::Placement& placement,
                                                const Cluster& cluster) {
  EMBPS_RETURN_IF_ERROR(PlacementCheck(spec, placement, cluster).Run());
  TableLayout layout;
  layout.type_ = placement.sharding_type();
  layout.row_count_ = spec.row_count();
  layout.dim_ = spec.dim();
  layout.cluster_ = cluster;
  layout.shards_ = FromMessage(placement);
  layout.Index();
  return layout;
}

void TableLayout::Index() {
  by_rank_ = shards_;
  std::ranges::sort(by_rank_, {}, [](const ShardRange& shard) {
    return std::make_tuple(shard.home, shard.row_begin, shard.column_begin);
  });
  rank_starts_.assign(cluster_.rank_count() + 1, 0);
  for (const ShardRange& shard : by_rank_) {
    ++rank_starts_[cluster_.GlobalRank(shard.home) + 1];
    if (nodes_.empty() || nodes_.back() != shard.home.node) nodes_.push_back(shard.home.node);
  }
  for (size_t q = 1; q < rank_starts_.size(); ++q) rank_starts_[q] += rank_starts_[q - 1];

  block_rows_ = rows_split_over_ranks() ? BlockRows(row_count_, static_cast<int>(shards_.size())) : row_count_;
  if (rows_split_over_nodes()) {
    for (const int node : nodes_) node_row_starts_.push_back(RowsOf(node).begin);
  } else {
    node_row_starts_.push_back(0);
  }
  node_row_starts_.push_back(row_count_);

  if (type_ == v1::SHARDING_TYPE_COLUMN_WISE) {
    column_slices_ = shards_;
  } else {
    column_slices_.push_back({shards_[0].home, 0, row_count_, 0, dim_});
  }
}

absl::Span<const ShardRange> TableLayout::ShardsOf(int node) const {
  const int begin = rank_starts_[cluster_.FirstRankOf(node)];
  return absl::MakeConstSpan(by_rank_).subspan(begin, rank_starts_[cluster_.FirstRankOf(node + 1)] - begin);
}

absl::Span<const ShardRange> TableLayout::ShardsOf(RankId id) const {
  const int rank = cluster_.GlobalRank(id);
  return absl::MakeConstSpan(by_rank_).subspan(rank_starts_[rank], rank_starts_[rank + 1] - rank_starts_[rank]);
}

RowRange TableLayout::RowsOf(int node) const {
  const auto shards = ShardsOf(node);
  if (shards.empty()) return {};
  return {shards.front().row_begin, shards.back().row_end};
}

Buckets TableLayout::BucketsOf(int node) const {
  EMBPS_CHECK(rows_split_over_ranks() && OwnsShard(node));
  return {RowsOf(node).begin, block_rows_, cluster_.ranks_per_node[node]};
}

std::vector<ShardRange> TableLayout::ColumnSlicesOf(int node) const {
  std::vector<ShardRange> slices;
  for (const ShardRange& slice : column_slices_) {
    if (slice.home.node == node) slices.push_back(slice);
  }
  return slices;
}

int32_t TableLayout::DimOf(int node) const {
  if (!OwnsShard(node)) return 0;
  if (type_ != v1::SHARDING_TYPE_COLUMN_WISE) return dim_;
  int32_t dim = 0;
  for (const ShardRange& slice : ShardsOf(node)) dim += slice.column_count();
  return dim;
}

}  // namespace embps::plan
