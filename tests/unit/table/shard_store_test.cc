#include "server/table/shard_store.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "proto/base/error.h"
#include "proto/plan/placement_builder.h"

namespace embps {
namespace {

class ShardStoreTest : public ::testing::Test {
 protected:
  ShardStore& Store(int node = 0, int64_t limit = 0) {
    ShardStoreOptions options;
    options.cluster = cluster_;
    options.node = node;
    options.rank_memory_limit_bytes = limit;
    options.stats = &stats_;
    options.new_uid = [this] { return next_uid_++; };
    store_ = std::make_unique<ShardStore>(*backend_, std::move(options));
    return *store_;
  }
  v1::NewTable NewTable(const std::string& name, int64_t rows = 10, int32_t dim = 4, uint64_t uid = 0,
                        v1::ShardingType type = v1::SHARDING_TYPE_ROW_WISE) {
    v1::NewTable table;
    table.mutable_spec()->set_name(name);
    table.mutable_spec()->set_row_count(rows);
    table.mutable_spec()->set_dim(dim);
    *table.mutable_placement() = *plan::MakePlacement(table.spec(), type, cluster_);
    table.set_table_uid(uid);
    return table;
  }
  absl::StatusOr<std::vector<ShardStore::Created>> Create(const std::vector<v1::NewTable>& tables) {
    std::vector<const v1::NewTable*> pointers;
    for (const v1::NewTable& table : tables) pointers.push_back(&table);
    return store_->Create(pointers, [this](absl::Span<const ShardStore::Created>) { ++published_; });
  }

  const plan::Cluster cluster_{{2, 2}};
  Stats stats_;
  std::unique_ptr<kernels::Backend> backend_ = kernels::cpu::NewCpuBackend();
  std::unique_ptr<ShardStore> store_;
  uint64_t next_uid_ = 50;
  int published_ = 0;
};

TEST_F(ShardStoreTest, NodeZeroGivesTheUidAndKeepsTheFirstCreation) {
  Store();
  const auto created = Create({NewTable("a")});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE((*created)[0].created);
  EXPECT_EQ((*created)[0].table->uid(), 50u);
  const auto again = Create({NewTable("a"), NewTable("b")});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE((*again)[0].created);
  EXPECT_EQ((*again)[0].table, (*created)[0].table);
  EXPECT_TRUE((*again)[1].created);
  EXPECT_EQ(store_->FindByName("", "b"), store_->FindByUid(51));
  EXPECT_EQ(store_->FindByName("default", "b"), store_->FindByUid(51));
  EXPECT_EQ(store_->FindByName("other", "b"), nullptr);
}

TEST_F(ShardStoreTest, TheStoredPlacementBindsWhateverNodeZeroIsAsked) {
  Store();
  ASSERT_TRUE(Create({NewTable("a")}).ok());
  const auto again = Create({NewTable("a", 10, 4, 0, v1::SHARDING_TYPE_TABLE_WISE)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[0].table->layout().type(), v1::SHARDING_TYPE_ROW_WISE);
  EXPECT_EQ(ReasonOf(Create({NewTable("a", 10, 4, 50, v1::SHARDING_TYPE_TABLE_WISE)}).status()),
            Reason::kTableSpecMismatch);
  EXPECT_EQ(ReasonOf(Create({NewTable("a", 10, 4, 51)}).status()), Reason::kTableSpecMismatch);
}

TEST_F(ShardStoreTest, ADifferingSpecIsNamedWithBothValues) {
  Store();
  ASSERT_TRUE(Create({NewTable("a")}).ok());
  const absl::Status status = Create({NewTable("a", 11)}).status();
  EXPECT_EQ(ReasonOf(status), Reason::kTableSpecMismatch);
  EXPECT_NE(status.message().find("row_count: stored 10, requested 11"), absl::string_view::npos) << status;
}

TEST_F(ShardStoreTest, OtherNodesNeedTheUid) {
  Store(/*node=*/1);
  EXPECT_EQ(ReasonOf(Create({NewTable("a")}).status()), Reason::kMalformed);
  ASSERT_TRUE(Create({NewTable("a", 10, 4, 9)}).ok());
  EXPECT_EQ(ReasonOf(Create({NewTable("b", 10, 4, 9)}).status()), Reason::kTableSpecMismatch);
}

TEST_F(ShardStoreTest, CreationIsAllOrNothing) {
  Store();
  v1::NewTable bad = NewTable("bad");
  bad.mutable_spec()->set_dim(0);
  EXPECT_FALSE(Create({NewTable("good"), bad}).ok());
  EXPECT_EQ(store_->FindByName("", "good"), nullptr);
  EXPECT_EQ(store_->bytes_in_use(0), 0);
  EXPECT_EQ(published_, 0);
  EXPECT_TRUE(stats_.Snapshot().tables.empty());
  EXPECT_EQ(ReasonOf(Create({NewTable("twice"), NewTable("twice")}).status()), Reason::kMalformed);
  EXPECT_EQ(ReasonOf(Create({NewTable("x", 10, 4, 7), NewTable("y", 10, 4, 7)}).status()), Reason::kMalformed);
}

TEST_F(ShardStoreTest, ADroppedTableIsFreedWhenTheLastUserLetsGo) {
  Store();
  ASSERT_TRUE(Create({NewTable("a")}).ok());
  std::shared_ptr<Table> held = store_->FindByName("", "a");
  const int64_t bytes = store_->bytes_in_use(0);
  EXPECT_EQ(bytes, 3 * 4 * 4);  // rows 0 to 2
  EXPECT_EQ(store_->Drop("", "a", 99), nullptr);
  EXPECT_EQ(store_->Drop("", "a", 50), held);
  EXPECT_EQ(store_->Drop("", "a", 0), nullptr);
  EXPECT_EQ(store_->FindByUid(50), nullptr);
  EXPECT_EQ(store_->bytes_in_use(0), bytes);
  held.reset();
  EXPECT_EQ(store_->bytes_in_use(0), 0);
  ASSERT_TRUE(Create({NewTable("a")}).ok());
  EXPECT_EQ(store_->FindByName("", "a")->uid(), 51u);
}

TEST_F(ShardStoreTest, ARankThatIsFullSaysWhatWasAskedAndWhatIsUsed) {
  Store(/*node=*/0, /*limit=*/1000);
  ASSERT_TRUE(Create({NewTable("a", 100)}).ok());  // 25 rows of 16 bytes on each rank
  const absl::Status status = Create({NewTable("b", 200)}).status();
  EXPECT_EQ(ReasonOf(status), Reason::kMemoryFull);
  EXPECT_NE(status.message().find("needs 800 bytes on rank 0 of node 0, where 400 of 1000 are in use"),
            absl::string_view::npos)
      << status;
  EXPECT_EQ(store_->bytes_in_use(0), 400);
  ASSERT_NE(store_->Drop("", "a", 0), nullptr);
  EXPECT_TRUE(Create({NewTable("b", 200)}).ok());
}

TEST_F(ShardStoreTest, S18_ATableTakesWhatItsRowsAndStateTake) {
  v1::NewTable table = NewTable("a", 1'000'000, 1, 0, v1::SHARDING_TYPE_TABLE_WISE);
  Store();
  ASSERT_TRUE(Create({table}).ok());
  EXPECT_EQ(store_->bytes_in_use(0), 4'000'000);
  table.mutable_spec()->set_name("b");
  table.mutable_spec()->mutable_optimizer()->set_type(v1::OPTIMIZER_TYPE_PARTIAL_ROWWISE_ADAM);
  ASSERT_TRUE(Create({table}).ok());
  EXPECT_LE(store_->bytes_in_use(0), 4'000'000 + 12'000'000 + 128);
}

TEST_F(ShardStoreTest, N15_EmptyShardsAreLegal) {
  Store(/*node=*/1);
  const auto created = Create({NewTable("one", 1, 4, 9)});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ((*created)[0].table->shards(0)[0]->range().row_count(), 0);
  EXPECT_EQ((*created)[0].table->bytes(), 0);
  EXPECT_EQ((*created)[0].table->node_rows().count(), 0);
}

TEST_F(ShardStoreTest, ListsByNamespaceAndName) {
  Store();
  v1::NewTable b = NewTable("b"), a = NewTable("a"), c = NewTable("c");
  c.mutable_spec()->set_namespace_("another");
  ASSERT_TRUE(Create({b, a, c}).ok());
  std::vector<std::string> names;
  for (const auto& table : store_->List("")) names.push_back(table->name());
  EXPECT_EQ(names, (std::vector<std::string>{"another/c", "default/a", "default/b"}));
  EXPECT_EQ(store_->List("default").size(), 2u);
}

}  // namespace
}  // namespace embps
