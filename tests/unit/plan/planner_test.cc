#include "proto/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "proto/base/error.h"
#include "proto/plan/table_layout.h"
#include "proto/plan/table_spec.h"
#include "tests/unit/plan/spec_builder.h"

namespace embps::plan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kMiB = int64_t{1} << 20;

TableRequest Request(const std::string& name, int64_t rows, int32_t dim, double ids = 0,
                     v1::OptimizerType optimizer = v1::OPTIMIZER_TYPE_SGD,
                     v1::ShardingType type = v1::SHARDING_TYPE_UNSPECIFIED) {
  TableRequest request;
  request.spec = MakeSpec(name, rows, dim, optimizer);
  request.spec.set_sharding_type(type);
  request.ids_per_batch = ids;
  return request;
}

Plan PlanOf(const std::vector<TableRequest>& requests, const Cluster& cluster, const PlannerOptions& options = {},
            const std::vector<RankLoad>& current = {}) {
  auto plan = PlanTables(requests, cluster, current, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto layout = TableLayout::Create(requests[i].spec, plan->placements[i], cluster);
    EXPECT_TRUE(layout.ok()) << layout.status();
  }
  return *std::move(plan);
}

std::vector<int64_t> Bytes(const Plan& plan) {
  std::vector<int64_t> bytes;
  for (const RankLoad& load : plan.loads) bytes.push_back(load.bytes);
  return bytes;
}

TEST(PlannerTest, EqualTablesSpreadEvenly) {
  std::vector<TableRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(Request("t" + std::to_string(i), 1000, 16, 100));
  const Plan plan = PlanOf(requests, Cluster{{2, 2}});
  EXPECT_THAT(Bytes(plan), ElementsAre(128000, 128000, 128000, 128000));
  for (const auto& placement : plan.placements) {
    EXPECT_EQ(placement.sharding_type(), v1::SHARDING_TYPE_TABLE_WISE);
  }
}

TEST(PlannerTest, BalancesExpectedIdsAsWellAsBytes) {
  // Four small hot tables and four large cold ones: each rank gets one of both.
  std::vector<TableRequest> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(Request("hot" + std::to_string(i), 1000, 4, 10000));
  for (int i = 0; i < 4; ++i) requests.push_back(Request("big" + std::to_string(i), 100000, 4, 10));
  const Plan plan = PlanOf(requests, Cluster{{4}});
  for (const RankLoad& load : plan.loads) {
    EXPECT_EQ(load.bytes, 16 * 101000);
    EXPECT_EQ(load.ids_per_batch, 10010);
  }
}

TEST(PlannerTest, CurrentUseCounts) {
  const Plan plan = PlanOf({Request("t", 1000, 16)}, Cluster{{1, 1}}, {}, {{1 << 20, 0}, {0, 0}});
  EXPECT_EQ(plan.placements[0].shards(0).node(), 1);
  EXPECT_THAT(Bytes(plan), ElementsAre(1 << 20, 64000));
}

TEST(PlannerTest, TooBigTableIsCutByRows) {
  const Plan plan =
      PlanOf({Request("big", 4 * kMiB, 64, 10, v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD), Request("small", 1000, 64, 10)},
             Cluster{{2, 2}});
  EXPECT_EQ(plan.placements[0].sharding_type(), v1::SHARDING_TYPE_ROW_WISE);
  EXPECT_EQ(plan.placements[1].sharding_type(), v1::SHARDING_TYPE_TABLE_WISE);
  EXPECT_THAT(plan.reasons[0].text, AllOf(HasSubstr("ROW_WISE over all 4 ranks"), HasSubstr("too big for one rank")));
}

TEST(PlannerTest, TooHotTableIsCutByRows) {
  const Plan plan = PlanOf({Request("hot", 10000, 8, 1e6), Request("cold", 10000, 8, 10)}, Cluster{{4}});
  EXPECT_EQ(plan.placements[0].sharding_type(), v1::SHARDING_TYPE_ROW_WISE);
  EXPECT_THAT(plan.reasons[0].text, HasSubstr("too hot for one rank"));
  EXPECT_EQ(plan.placements[1].sharding_type(), v1::SHARDING_TYPE_TABLE_WISE);
}

TEST(PlannerTest, TableThatFitsNoRankIsCutByRowsHoweverSmall) {
  PlannerOptions options;
  options.rank_memory_bytes = 40000;
  const Plan plan = PlanOf({Request("t", 1000, 16)}, Cluster{{2}}, options);
  EXPECT_EQ(plan.placements[0].sharding_type(), v1::SHARDING_TYPE_ROW_WISE);
  EXPECT_THAT(plan.reasons[0].text, HasSubstr("fits in no better way"));
  EXPECT_THAT(Bytes(plan), ElementsAre(32000, 32000));
}

TEST(PlannerTest, TableThatFitsOneNodeOnlyIsCutThere) {
  PlannerOptions options;
  options.rank_memory_bytes = 40000;
  const Plan plan = PlanOf({Request("t", 1000, 16)}, Cluster{{1, 2}}, options, {{40000, 0}, {0, 0}, {0, 0}});
  EXPECT_EQ(plan.placements[0].sharding_type(), v1::SHARDING_TYPE_TABLE_ROW_WISE);
  EXPECT_EQ(plan.placements[0].shards(0).node(), 1);
}

TEST(PlannerTest, FullMemoryIsAnErrorThatNamesTheTable) {
  PlannerOptions options;
  options.rank_memory_bytes = 10000;
  for (const auto type : {v1::SHARDING_TYPE_UNSPECIFIED, v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_COLUMN_WISE,
                          v1::SHARDING_TYPE_DATA_PARALLEL}) {
    const std::vector<TableRequest> requests = {Request("t", 1000, 16, 0, v1::OPTIMIZER_TYPE_SGD, type)};
    const auto plan = PlanTables(requests, Cluster{{2}}, {}, options);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(plan.status()), Reason::kMemoryFull);
    EXPECT_EQ(MetadataValue(plan.status(), "table"), "default/t");
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("'default/t' of 62.5 KiB"));
  }
}

TEST(PlannerTest, HotTableOfFewRowsIsCutByColumnsInMultiplesOfFour) {
  const Plan plan = PlanOf({Request("hot", 3, 64, 1e6)}, Cluster{{4}});
  ASSERT_EQ(plan.placements[0].sharding_type(), v1::SHARDING_TYPE_COLUMN_WISE);
  for (const auto& shard : plan.placements[0].shards()) EXPECT_EQ(shard.column_begin() % 4, 0);
  EXPECT_EQ(plan.loads[2].ids_per_batch, 250000);
}

TEST(PlannerTest, ColumnsOfARowNormOptimizerAreNeverCutUnasked) {
  for (const auto optimizer :
       {v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD, v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM, v1::OPTIMIZER_TYPE_LAMB,
        v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_LAMB, v1::OPTIMIZER_TYPE_LARS_SGD}) {
    const Plan plan = PlanOf({Request("hot", 3, 64, 1e6, optimizer)}, Cluster{{4}});
    EXPECT_EQ(plan.placements[0].sharding_type(), v1::SHARDING_TYPE_TABLE_WISE);
    EXPECT_THAT(plan.warnings, IsEmpty());
  }
  TableRequest with_norm = Request("hot", 3, 64, 1e6);
  with_norm.spec.mutable_optimizer()->set_max_norm(1);
  EXPECT_EQ(PlanOf({with_norm}, Cluster{{4}}).placements[0].sharding_type(), v1::SHARDING_TYPE_TABLE_WISE);
}

TEST(PlannerTest, ExplicitColumnCutOfARowNormOptimizerIsDoneAndFlagged) {
  const Plan plan = PlanOf(
      {Request("t", 100, 16, 0, v1::OPTIMIZER_TYPE_ROWWISE_ADAGRAD, v1::SHARDING_TYPE_COLUMN_WISE)}, Cluster{{2}});
  EXPECT_EQ(plan.placements[0].shards_size(), 2);
  ASSERT_THAT(plan.warnings, SizeIs(1));
  EXPECT_THAT(plan.warnings[0], AllOf(HasSubstr("default/t"), HasSubstr("ROWWISE_ADAGRAD"), HasSubstr("2 slices")));
  EXPECT_THAT(plan.Explain(), HasSubstr("warning: table 'default/t'"));
}

TEST(PlannerTest, ExplicitTypesAreKeptAndPlacedByLoad) {
  const std::vector<RankLoad> current = {{5000, 0}, {100, 0}, {3000, 0}, {200, 0}};
  const Cluster cluster{{2, 2}};
  const auto placed = [&](v1::ShardingType type) {
    return PlanOf({Request("t", 10, 8, 0, v1::OPTIMIZER_TYPE_SGD, type)}, cluster, {}, current).placements[0];
  };
  const v1::Placement table_wise = placed(v1::SHARDING_TYPE_TABLE_WISE);
  EXPECT_EQ(table_wise.shards(0).node(), 0);
  EXPECT_EQ(table_wise.shards(0).rank(), 1);
  EXPECT_EQ(placed(v1::SHARDING_TYPE_TABLE_ROW_WISE).shards(0).node(), 1);
  EXPECT_EQ(placed(v1::SHARDING_TYPE_DATA_PARALLEL).shards(0).node(), 1);
  EXPECT_EQ(placed(v1::SHARDING_TYPE_ROW_WISE).shards_size(), 4);
  const v1::Placement column_wise = placed(v1::SHARDING_TYPE_COLUMN_WISE);
  ASSERT_EQ(column_wise.shards_size(), 2);
  EXPECT_EQ(column_wise.shards(0).node(), 0);
  EXPECT_EQ(column_wise.shards(0).rank(), 1);
  EXPECT_EQ(column_wise.shards(1).node(), 1);
  EXPECT_EQ(column_wise.shards(1).rank(), 1);
}

TEST(PlannerTest, FixedHomesBindAndAreCountedFirst) {
  TableRequest fixed = Request("fixed", 1000, 16, 0, v1::OPTIMIZER_TYPE_SGD, v1::SHARDING_TYPE_TABLE_WISE);
  fixed.node = 1;
  const Plan plan = PlanOf({Request("free", 2000, 16), fixed}, Cluster{{1, 2}}, {}, {{0, 0}, {999, 0}, {0, 0}});
  EXPECT_EQ(plan.placements[1].shards(0).node(), 1);
  EXPECT_EQ(plan.placements[1].shards(0).rank(), 1);
  EXPECT_EQ(plan.placements[0].shards(0).node(), 0);
  EXPECT_THAT(plan.reasons[1].text, HasSubstr("as asked"));
  fixed.rank = 0;
  EXPECT_EQ(PlanOf({fixed}, Cluster{{1, 2}}, {}, {{0, 0}, {999, 0}, {0, 0}}).placements[0].shards(0).rank(), 0);
}

TEST(PlannerTest, ColumnSlicesStayOnTheChosenNode) {
  TableRequest request = Request("t", 10, 16, 0, v1::OPTIMIZER_TYPE_SGD, v1::SHARDING_TYPE_COLUMN_WISE);
  request.node = 1;
  request.column_slices = 3;
  const v1::Placement placement = PlanOf({request}, Cluster{{4, 2}}).placements[0];
  ASSERT_EQ(placement.shards_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(placement.shards(i).node(), 1);
    EXPECT_EQ(placement.shards(i).rank(), i % 2);
  }
}

TEST(PlannerTest, ChoicesThatMeanNothingAreRefused) {
  const auto refusal = [](v1::ShardingType type, int node, int rank, int slices) {
    TableRequest request = Request("t", 10, 16, 0, v1::OPTIMIZER_TYPE_SGD, type);
    request.node = node;
    request.rank = rank;
    request.column_slices = slices;
    const auto plan = PlanTables(std::vector<TableRequest>{request}, Cluster{{1, 1}}, {});
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_TABLE_WISE, 7, -1, 0), HasSubstr("no node 7"));
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_TABLE_WISE, 0, 1, 0), HasSubstr("no node 0 with rank 1"));
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_TABLE_WISE, -1, 0, 0), HasSubstr("together with its node"));
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_UNSPECIFIED, 0, -1, 0), HasSubstr("sharding_type UNSPECIFIED"));
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_ROW_WISE, 0, -1, 0), HasSubstr("sharding_type ROW_WISE"));
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_ROW_WISE, -1, -1, 2), HasSubstr("column_slices"));
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_COLUMN_WISE, -1, -1, 17), HasSubstr("column_slices 17, must be 1 to dim"));
  EXPECT_THAT(refusal(v1::SHARDING_TYPE_COLUMN_WISE, -1, -1, -2), HasSubstr("column_slices -2, must be 1 to dim"));
}

TEST(PlannerTest, CopiesOfALargeTableAreFlagged) {
  const Plan plan =
      PlanOf({Request("t", 100000, 64, 0, v1::OPTIMIZER_TYPE_SGD, v1::SHARDING_TYPE_DATA_PARALLEL)}, Cluster{{2}});
  ASSERT_THAT(plan.warnings, SizeIs(1));
  EXPECT_THAT(plan.warnings[0], HasSubstr("2 copies of 24.4 MiB"));
}

TEST(PlannerTest, IsDeterministicAndIndependentOfRequestOrder) {
  std::vector<TableRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(Request("t" + std::to_string(i), 100 + 37 * (i % 7), 4 * (1 + i % 5), 10 * (i % 3)));
  }
  const Plan plan = PlanOf(requests, Cluster{{3, 2}});
  const Plan again = PlanOf(requests, Cluster{{3, 2}});
  EXPECT_EQ(plan.Explain(), again.Explain());
  std::vector<TableRequest> reversed(requests.rbegin(), requests.rend());
  const Plan other = PlanOf(reversed, Cluster{{3, 2}});
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.placements[i].SerializeAsString(), other.placements[requests.size() - 1 - i].SerializeAsString());
  }
}

TEST(PlannerTest, ExplainsEveryTableAndRank) {
  const Plan plan = PlanOf({Request("a", 1024, 16, 50), Request("b", 10, 4)}, Cluster{{1, 1}});
  EXPECT_EQ(plan.Explain(),
            "default/a: TABLE_WISE on node 0 rank 0: least loaded rank (64.0 KiB, 50 ids per batch)\n"
            "default/b: TABLE_WISE on node 1 rank 0: least loaded rank (160 B, 0 ids per batch)\n"
            "node 0 rank 0: 64.0 KiB, 50 ids per batch\n"
            "node 1 rank 0: 160 B, 0 ids per batch\n");
}

TEST(PlannerTest, BadRequestsAreRefused) {
  const Cluster cluster{{1}};
  const auto refusal = [&](const std::vector<TableRequest>& requests) {
    const auto plan = PlanTables(requests, cluster, {});
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_THAT(refusal({Request("a", 1, 1), Request("a", 2, 1)}), HasSubstr("'default/a' is asked for twice"));
  EXPECT_THAT(refusal({Request("a", 0, 1)}), HasSubstr("row_count"));
  EXPECT_THAT(refusal({Request("a", 1, 1, -1)}), HasSubstr("ids_per_batch -1"));
  EXPECT_FALSE(PlanTables(std::vector<TableRequest>{}, Cluster{}, {}).ok());
  EXPECT_FALSE(PlanTables(std::vector<TableRequest>{}, cluster, std::vector<RankLoad>(2)).ok());
  PlannerOptions options;
  options.split_min_rows_per_rank = 0;
  options.rank_memory_bytes = -1;
  EXPECT_THAT(std::string(PlanTables(std::vector<TableRequest>{}, cluster, {}, options).status().message()),
              AllOf(HasSubstr("split_min_rows_per_rank"), HasSubstr("rank_memory_bytes")));
  EXPECT_TRUE(PlanTables(std::vector<TableRequest>{}, cluster, {}).ok());
}

TEST(PlannerTest, HugeTablesDoNotOverflow) {
  const Plan plan = PlanOf({Request("a", kMaxRows, 4096, 0, v1::OPTIMIZER_TYPE_ADAM),
                            Request("b", kMaxRows, 4096, 0, v1::OPTIMIZER_TYPE_ADAM)},
                           Cluster{{1}});
  EXPECT_EQ(plan.loads[0].bytes, std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace embps::plan
