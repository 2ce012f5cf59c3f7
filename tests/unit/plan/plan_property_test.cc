// Random tables on random clusters: whatever is built covers the table once, and routing agrees with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "proto/plan/placement_builder.h"
#include "proto/plan/planner.h"
#include "proto/plan/split.h"
#include "proto/plan/table_layout.h"
#include "proto/plan/table_spec.h"
#include "tests/unit/plan/spec_builder.h"

namespace embps::plan {
namespace {

constexpr int kSeeds = 400;

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Cluster AnyCluster() {
    Cluster cluster;
    // Sometimes more nodes than the splitter counts one by one.
    const int64_t nodes = Between(0, 9) == 0 ? Between(17, 40) : Between(1, 5);
    for (int64_t i = 0; i < nodes; ++i) cluster.ranks_per_node.push_back(static_cast<int>(Between(1, 4)));
    return cluster;
  }

  v1::TableSpec AnySpec(const std::string& name) {
    const int64_t rows = Between(0, 2) == 0 ? Between(1, 12) : Between(1, 700);
    return MakeSpec(name, rows, static_cast<int32_t>(Between(1, 40)),
                    static_cast<v1::OptimizerType>(Between(v1::OPTIMIZER_TYPE_SGD, v1::OPTIMIZER_TYPE_LARS_SGD)));
  }

  v1::ShardingType AnyType() {
    return static_cast<v1::ShardingType>(Between(v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_DATA_PARALLEL));
  }

  PlacementOptions AnyOptions(const v1::TableSpec& spec, const Cluster& cluster) {
    const RankId home = cluster.RankOf(static_cast<int>(Between(0, cluster.rank_count() - 1)));
    PlacementOptions options{home.node, home.rank, static_cast<int>(Between(0, std::min(spec.dim(), 9))), {}};
    return options;
  }

 private:
  std::mt19937 random_;
};

// How often each cell (row, column) of the table is stored.
std::vector<int> CellCopies(const TableLayout& layout) {
  std::vector<int> copies(layout.row_count() * layout.dim(), 0);
  for (const ShardRange& shard : layout.shards()) {
    for (int64_t row = shard.row_begin; row < shard.row_end; ++row) {
      for (int32_t column = shard.column_begin; column < shard.column_end; ++column) {
        ++copies[row * layout.dim() + column];
      }
    }
  }
  return copies;
}

void ExpectRoutingFindsEveryRow(const TableLayout& layout) {
  for (int64_t row = 0; row < layout.row_count(); ++row) {
    int owners = 0;
    for (const int node : layout.nodes()) {
      if (!layout.RowsOf(node).Contains(row)) continue;
      ++owners;
      if (!layout.rows_split_over_ranks()) continue;
      const Buckets buckets = layout.BucketsOf(node);
      const int32_t bucket = buckets.BucketOf(row);
      ASSERT_LT(bucket, buckets.count);
      const auto shards = layout.ShardsOf(RankId{node, bucket});
      ASSERT_EQ(shards.size(), 1u);
      ASSERT_EQ(shards[0].row_begin + buckets.LocalRow(row), row);
      ASSERT_LT(row, shards[0].row_end);
    }
    ASSERT_EQ(owners, layout.columns_split_over_nodes() ? static_cast<int>(layout.nodes().size()) : 1);
  }
}

TEST(PlanPropertyTest, EveryCellIsStoredOnceAndRoutingFindsIt) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Draw draw(seed);
    const Cluster cluster = draw.AnyCluster();
    const v1::TableSpec spec = draw.AnySpec("t");
    const v1::ShardingType type = draw.AnyType();
    const auto placement = MakePlacement(spec, type, cluster, draw.AnyOptions(spec, cluster));
    ASSERT_TRUE(placement.ok()) << placement.status();
    const auto layout = TableLayout::Create(spec, *placement, cluster);
    ASSERT_TRUE(layout.ok()) << layout.status();

    const int copies = type == v1::SHARDING_TYPE_DATA_PARALLEL ? placement->shards_size() : 1;
    const std::vector<int> cells = CellCopies(*layout);
    ASSERT_EQ(std::ranges::count(cells, copies), static_cast<int64_t>(cells.size()));
    ExpectRoutingFindsEveryRow(*layout);

    size_t shards = 0;
    int32_t columns = 0;
    for (int node = 0; node < cluster.node_count(); ++node) {
      size_t of_node = 0;
      for (int rank = 0; rank < cluster.ranks_per_node[node]; ++rank) {
        for (const ShardRange& shard : layout->ShardsOf(RankId{node, rank})) {
          ASSERT_EQ(shard.home, (RankId{node, rank}));
          ++of_node;
        }
      }
      ASSERT_EQ(layout->ShardsOf(node).size(), of_node);
      ASSERT_EQ(layout->OwnsShard(node), of_node > 0);
      shards += of_node;
      columns += layout->DimOf(node);
    }
    ASSERT_EQ(shards, layout->shards().size());
    if (type == v1::SHARDING_TYPE_COLUMN_WISE) {
      ASSERT_EQ(columns, spec.dim());
    }
  }
}

TEST(PlanPropertyTest, SplitAgreesWithTheLayoutAndLosesNothing) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Draw draw(seed);
    const Cluster cluster = draw.AnyCluster();
    const v1::TableSpec spec = draw.AnySpec("t");
    const auto layout = *TableLayout::Create(spec, *MakePlacement(spec, v1::SHARDING_TYPE_ROW_WISE, cluster), cluster);
    std::vector<int64_t> lengths(draw.Between(0, 30));
    std::vector<int32_t> ids;
    std::vector<float> weights;
    for (int64_t& length : lengths) {
      length = draw.Between(0, 4);
      for (int64_t i = 0; i < length; ++i) {
        ids.push_back(static_cast<int32_t>(draw.Between(0, spec.row_count() - 1)));
        weights.push_back(static_cast<float>(weights.size()));
      }
    }
    RowSplitter splitter(layout);
    std::vector<NodePart<int32_t>> parts;
    ASSERT_TRUE(splitter.Split({lengths, ids, weights}, true, parts).ok());
    ASSERT_EQ(parts.size(), layout.nodes().size());

    // By the plainest rule: each id goes to the node whose rows hold it.
    std::vector<NodePart<int32_t>> expected(parts.size());
    size_t at = 0;
    for (const int64_t length : lengths) {
      for (auto& part : expected) part.lengths.push_back(0);
      for (int64_t i = 0; i < length; ++i, ++at) {
        for (size_t n = 0; n < parts.size(); ++n) {
          if (!layout.RowsOf(layout.nodes()[n]).Contains(ids[at])) continue;
          ++expected[n].lengths.back();
          expected[n].ids.push_back(ids[at]);
          expected[n].weights.push_back(weights[at]);
          expected[n].positions.push_back(static_cast<int64_t>(at));
        }
      }
    }
    for (size_t n = 0; n < parts.size(); ++n) {
      ASSERT_EQ(parts[n].lengths, expected[n].lengths);
      ASSERT_EQ(parts[n].ids, expected[n].ids);
      ASSERT_EQ(parts[n].weights, expected[n].weights);
      ASSERT_EQ(parts[n].positions, expected[n].positions);
    }
  }
}

TEST(PlanPropertyTest, DistinctIdsExpandToWhatTheyCameFrom) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Draw draw(seed);
    const int64_t range = draw.Between(1, 300);
    // Strides make ids that share their low bits, the bad case of a weak hash.
    const int64_t stride = int64_t{1} << draw.Between(0, 40);
    std::vector<int64_t> ids(draw.Between(0, 500));
    for (int64_t& id : ids) id = stride * draw.Between(0, range);
    const Distinct<int64_t> distinct = DistinctIds(ids);
    std::map<int64_t, int64_t> index;
    ASSERT_EQ(distinct.inverse.size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto [entry, is_new] = index.try_emplace(ids[i], static_cast<int64_t>(index.size()));
      ASSERT_EQ(distinct.inverse[i], entry->second);
      ASSERT_EQ(distinct.unique[distinct.inverse[i]], ids[i]);
    }
    ASSERT_EQ(distinct.unique.size(), index.size());
  }
}

TEST(PlanPropertyTest, PlansAreLegalAndNeverCutNormedColumns) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Draw draw(seed);
    const Cluster cluster = draw.AnyCluster();
    std::vector<TableRequest> requests(draw.Between(0, 30));
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].spec = draw.AnySpec("t" + std::to_string(i));
      requests[i].ids_per_batch = static_cast<double>(draw.Between(0, 200));
      if (draw.Between(0, 3) == 0) requests[i].spec.set_sharding_type(draw.AnyType());
    }
    PlannerOptions options;
    options.split_min_bytes = draw.Between(0, 100000);
    options.split_min_ids = static_cast<double>(draw.Between(0, 1000));
    const auto plan = PlanTables(requests, cluster, {}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<RankLoad> loads(cluster.rank_count());
    for (size_t i = 0; i < requests.size(); ++i) {
      const v1::TableSpec& spec = requests[i].spec;
      const v1::Placement& placement = plan->placements[i];
      const auto layout = TableLayout::Create(spec, placement, cluster);
      ASSERT_TRUE(layout.ok()) << layout.status();
      AddLoad(spec, placement, requests[i].ids_per_batch, cluster, loads);
      const bool asked = spec.sharding_type() != v1::SHARDING_TYPE_UNSPECIFIED;
      if (asked) {
        ASSERT_EQ(placement.sharding_type(), spec.sharding_type());
      } else {
        ASSERT_NE(placement.sharding_type(), v1::SHARDING_TYPE_DATA_PARALLEL);
        if (layout->type() == v1::SHARDING_TYPE_COLUMN_WISE) {
          ASSERT_FALSE(HasRowNorm(spec.optimizer()));
          for (const ShardRange& slice : layout->column_slices()) ASSERT_EQ(slice.column_begin % kColumnQuantum, 0);
        }
      }
    }
    for (size_t q = 0; q < loads.size(); ++q) {
      ASSERT_EQ(loads[q].bytes, plan->loads[q].bytes);
      ASSERT_NEAR(loads[q].ids_per_batch, plan->loads[q].ids_per_batch, 1e-6);
    }
  }
}

TEST(PlanPropertyTest, BytesAloneBalanceWithinOneTable) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Draw draw(seed);
    const Cluster cluster = draw.AnyCluster();
    std::vector<TableRequest> requests(draw.Between(1, 40));
    int64_t largest = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].spec = draw.AnySpec("t" + std::to_string(i));
      largest = std::max(largest, TableBytes(requests[i].spec));
    }
    const auto plan = PlanTables(requests, cluster, {});
    ASSERT_TRUE(plan.ok());
    const auto [low, high] = std::ranges::minmax_element(plan->loads, {}, &RankLoad::bytes);
    ASSERT_LE(high->bytes - low->bytes, largest);
  }
}

}  // namespace
}  // namespace embps::plan
