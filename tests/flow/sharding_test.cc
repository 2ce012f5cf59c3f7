// What a placement may not change: the same requests on one rank with every table whole, and on W ranks with each table
// cut in some way, give the same rows and state to the bit and the same outputs within numerics.md section 7.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <tuple>

#include "proto/plan/table_spec.h"
#include "tests/support/test_node.h"

namespace embps::testing {
namespace {

constexpr v1::ShardingType kTypes[] = {v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_ROW_WISE,
                                       v1::SHARDING_TYPE_COLUMN_WISE, v1::SHARDING_TYPE_TABLE_ROW_WISE,
                                       v1::SHARDING_TYPE_DATA_PARALLEL};
constexpr v1::DataType kDataTypes[] = {v1::DATA_TYPE_FP32, v1::DATA_TYPE_FP16, v1::DATA_TYPE_BF16};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Int(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  float Real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  bool Chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  template <class T, size_t N>
  T Pick(const T (&from)[N]) {
    return from[Int(0, N - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

v1::TableSpec RandomSpec(Random& random, int index) {
  constexpr int64_t kRows[] = {1, 2, 5, 40, 300, 5000};
  constexpr int32_t kDims[] = {1, 2, 3, 4, 7, 8, 16, 33, 64, 128};
  v1::TableSpec spec;
  spec.set_name("t" + std::to_string(index));
  spec.set_row_count(random.Pick(kRows));
  spec.set_dim(random.Pick(kDims));
  spec.set_row_type(random.Pick(kDataTypes));
  spec.set_id_type(random.Chance(0.5) ? v1::ID_TYPE_INT32 : v1::ID_TYPE_INT64);
  v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
  optimizer.set_type(static_cast<v1::OptimizerType>(random.Int(v1::OPTIMIZER_TYPE_SGD, v1::OPTIMIZER_TYPE_LARS_SGD)));
  optimizer.set_learning_rate(0.1f);
  if (random.Chance(0.3)) optimizer.set_weight_decay(0.01f);
  optimizer.set_weight_decay_mode(static_cast<v1::WeightDecayMode>(random.Int(1, 3)));
  if (random.Chance(0.3)) optimizer.set_max_gradient(0.5f);
  if (random.Chance(0.2)) optimizer.set_max_norm(1.0f);
  spec.mutable_initializer()->set_kind(v1::INITIALIZER_KIND_UNIFORM);
  spec.mutable_initializer()->set_a(-1.0f);
  spec.mutable_initializer()->set_b(1.0f);
  spec.mutable_initializer()->set_seed(static_cast<uint64_t>(random.Int(0, 1000)));
  spec.set_nearest_rounding(random.Chance(0.3));
  return spec;
}

// Column cuts change the result of a norm over the row, so such tables are cut otherwise.
v1::ShardingType RandomType(Random& random, const v1::TableSpec& spec) {
  const v1::ShardingType type = random.Pick(kTypes);
  const bool cuts_norm = type == v1::SHARDING_TYPE_COLUMN_WISE && plan::HasRowNorm(spec.optimizer());
  return cuts_norm ? v1::SHARDING_TYPE_ROW_WISE : type;
}

int64_t RandomBagCount(Random& random) {
  constexpr int64_t kCounts[] = {0, 1, 3, 17};
  return random.Pick(kCounts);
}

FeatureInput RandomFeature(Random& random, const v1::Table& table, bool weighted, bool drop) {
  FeatureInput out;
  out.table = table;
  out.pooling = weighted ? v1::POOLING_SUM : static_cast<v1::Pooling>(random.Int(v1::POOLING_SUM, v1::POOLING_NONE));
  const int64_t rows = table.spec().row_count();
  const bool hot = random.Chance(0.15), empty = random.Chance(0.1);
  for (int64_t bag = RandomBagCount(random); bag > 0; --bag) {
    const int64_t length = empty ? 0 : hot ? random.Int(0, 40) : random.Int(0, 4);
    out.lengths.push_back(length);
    for (int64_t i = 0; i < length; ++i) {
      int64_t id = hot ? rows - 1 : random.Int(0, rows - 1);
      if (drop && random.Chance(0.1)) id = random.Chance(0.5) ? -1 : rows + random.Int(0, 3);
      out.ids.push_back(id);
      if (weighted) out.weights.push_back(random.Real(-1, 1));
    }
  }
  return out;
}

BatchInput RandomBatch(Random& random, const std::vector<v1::Table>& tables) {
  BatchInput batch;
  batch.weighted = random.Chance(0.3);
  batch.policy = random.Chance(0.3) ? v1::OUT_OF_RANGE_POLICY_DROP : v1::OUT_OF_RANGE_POLICY_ERROR;
  batch.output_dtype = random.Chance(0.7) ? v1::DATA_TYPE_FP32 : random.Pick(kDataTypes);
  for (int64_t f = random.Int(0, 6); f > 0; --f) {
    const auto& table = tables[static_cast<size_t>(random.Int(0, static_cast<int64_t>(tables.size()) - 1))];
    batch.features.push_back(
        RandomFeature(random, table, batch.weighted, batch.policy == v1::OUT_OF_RANGE_POLICY_DROP));
  }
  return batch;
}

void AddGradients(Random& random, BatchInput* batch) {
  for (FeatureInput& feature : batch->features) {
    const size_t rows = feature.pooling == v1::POOLING_NONE ? feature.ids.size() : feature.lengths.size();
    feature.grads.resize(rows * static_cast<size_t>(feature.table.spec().dim()));
    for (float& grad : feature.grads) grad = random.Real(-1, 1);
  }
}

std::vector<int64_t> AllIds(const v1::Table& table) {
  std::vector<int64_t> ids(static_cast<size_t>(table.spec().row_count()));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  return ids;
}

// Rows of a table as [R, D], and states as [R, width] per slice joined by columns.
struct WholeRows {
  std::vector<float> rows, state0, state1;
  int64_t step = 0;
  bool operator==(const WholeRows&) const = default;
};

std::vector<float> JoinColumns(const std::vector<float>& blocks, size_t row_count, const std::vector<int32_t>& widths) {
  size_t width = 0, begin = 0, column = 0;
  for (const int32_t w : widths) width += static_cast<size_t>(w);
  std::vector<float> out(row_count * width);
  for (const int32_t w : widths) {
    for (size_t row = 0; row < row_count; ++row) {
      for (size_t c = 0; c < static_cast<size_t>(w); ++c) {
        out[row * width + column + c] = blocks[begin + row * static_cast<size_t>(w) + c];
      }
    }
    begin += row_count * static_cast<size_t>(w);
    column += static_cast<size_t>(w);
  }
  return out;
}

WholeRows ReadWhole(TestNode& node, const v1::Table& table) {
  const absl::StatusOr<TableRows> read = node.ReadRows(table, AllIds(table));
  EXPECT_TRUE(read.ok()) << read.status();
  if (!read.ok()) return {};
  std::vector<int32_t> columns, state0, state1;
  for (const v1::RowSlice& slice : read->slices) {
    columns.push_back(slice.column_end() - slice.column_begin());
    state0.push_back(slice.state0_width());
    state1.push_back(slice.state1_width());
  }
  const auto rows = static_cast<size_t>(table.spec().row_count());
  return {JoinColumns(read->rows, rows, columns), JoinColumns(read->state0, rows, state0),
          JoinColumns(read->state1, rows, state1), read->step};
}

// The allowance of numerics.md section 7 for each element of a feature: 1e-6 + 16 * 2^-24 * sum |w x|, plus the
// rounding of the output type.
std::vector<double> Allowance(const FeatureInput& feature, const std::vector<float>& rows, v1::DataType type,
                              const std::vector<float>& values) {
  const auto dim = static_cast<size_t>(feature.table.spec().dim());
  const double relative = type == v1::DATA_TYPE_FP32 ? 0 : type == v1::DATA_TYPE_FP16 ? 0x1p-10 : 0x1p-7;
  std::vector<double> out(values.size(), 1e-6);
  for (size_t i = 0; i < out.size(); ++i) out[i] += relative * std::fabs(values[i]);
  if (feature.pooling == v1::POOLING_NONE) return out;
  size_t at = 0;
  for (size_t bag = 0; bag < feature.lengths.size(); ++bag) {
    for (int64_t i = 0; i < feature.lengths[bag]; ++i, ++at) {
      const int64_t id = feature.ids[at];
      if (id < 0 || id >= feature.table.spec().row_count()) continue;
      const double weight = feature.weights.empty() ? 1.0 : feature.weights[at];
      for (size_t d = 0; d < dim; ++d) {
        out[bag * dim + d] += 16 * 0x1p-24 * std::fabs(weight * rows[static_cast<size_t>(id) * dim + d]);
      }
    }
  }
  return out;
}

void ExpectSameOutputs(const BatchInput& batch, const LookupOutput& expected, const LookupOutput& actual,
                       TestNode& reference) {
  ASSERT_EQ(expected.rows.size(), actual.rows.size());
  EXPECT_EQ(expected.info.dropped_ids, actual.info.dropped_ids);
  EXPECT_EQ(expected.info.pruned_ids, actual.info.pruned_ids);
  EXPECT_EQ(expected.info.version, actual.info.version);
  for (size_t f = 0; f < batch.features.size(); ++f) {
    ASSERT_EQ(expected.rows[f].size(), actual.rows[f].size());
    const std::vector<float> rows = ReadWhole(reference, batch.features[f].table).rows;
    const std::vector<double> allowed = Allowance(batch.features[f], rows, batch.output_dtype, expected.rows[f]);
    for (size_t i = 0; i < allowed.size(); ++i) {
      ASSERT_LE(std::fabs(static_cast<double>(expected.rows[f][i]) - actual.rows[f][i]), allowed[i])
          << "feature " << f << " element " << i << ": " << expected.rows[f][i] << " and " << actual.rows[f][i];
    }
  }
}

struct Variant {
  int ranks = 1;
  int workers = 1;
  bool deferred = false;
  int64_t chunk_bytes = 0;
};

class ShardingTest : public ::testing::TestWithParam<Variant> {
 protected:
  std::set<v1::ShardingType> types_;
  std::set<v1::OptimizerType> optimizers_;
  std::set<v1::DataType> row_types_;
  std::set<v1::Pooling> poolings_;

  static TestNodeOptions Options() {
    TestNodeOptions options;
    options.ranks_per_node = {GetParam().ranks};
    options.workers = GetParam().workers;
    options.deferred = GetParam().deferred;
    options.chunk_bytes = GetParam().chunk_bytes;
    return options;
  }
  void Run(uint64_t seed);
};

void ShardingTest::Run(uint64_t seed) {
  Random random(seed);
  TestNode whole, cut(Options());
  std::vector<v1::Table> whole_tables, cut_tables;
  for (int i = 0; i < 4; ++i) {
    const v1::TableSpec spec = RandomSpec(random, i);
    plan::PlacementOptions placement;
    placement.rank = static_cast<int>(random.Int(0, GetParam().ranks - 1));
    const v1::ShardingType type = RandomType(random, spec);
    const auto reference = whole.CreateTable(spec, v1::SHARDING_TYPE_TABLE_WISE);
    const auto table = cut.CreateTable(spec, type, placement);
    ASSERT_TRUE(reference.ok() && table.ok()) << reference.status() << table.status();
    whole_tables.push_back(*reference);
    cut_tables.push_back(*table);
    types_.insert(type);
    optimizers_.insert(spec.optimizer().type());
    row_types_.insert(spec.row_type());
  }
  for (int step = 0; step < 6; ++step) {
    BatchInput batch = RandomBatch(random, whole_tables);
    if (step % 2 == 1) AddGradients(random, &batch);
    BatchInput cut_batch = batch;
    for (FeatureInput& feature : cut_batch.features) {
      for (const v1::Table& table : cut_tables) {
        if (table.spec().name() == feature.table.spec().name()) feature.table = table;
      }
      poolings_.insert(feature.pooling);
    }
    if (step % 2 == 1) {
      const auto expected = whole.Push(batch), actual = cut.Push(cut_batch);
      ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
      EXPECT_EQ(expected->rows_updated(), actual->rows_updated());
      EXPECT_EQ(expected->dropped_ids(), actual->dropped_ids());
      EXPECT_EQ(expected->values_saturated(), actual->values_saturated());
    } else {
      const auto expected = whole.Lookup(batch), actual = cut.Lookup(cut_batch);
      ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
      ExpectSameOutputs(batch, *expected, *actual, whole);
    }
  }
  for (size_t i = 0; i < whole_tables.size(); ++i) {
    EXPECT_EQ(ReadWhole(whole, whole_tables[i]), ReadWhole(cut, cut_tables[i]))
        << "table " << cut_tables[i].ShortDebugString();
  }
}

TEST_P(ShardingTest, RowsStateAndOutputsDoNotDependOnThePlacement) {
  constexpr uint64_t kSeeds = 25;
  for (uint64_t seed = 1; seed <= kSeeds && !HasFatalFailure() && !HasNonfatalFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Run(seed);
  }
  if (HasFailure()) return;
  EXPECT_EQ(types_.size(), 5u);
  EXPECT_EQ(optimizers_.size(), 8u);
  EXPECT_EQ(row_types_.size(), 3u);
  EXPECT_EQ(poolings_.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Nodes, ShardingTest,
                         ::testing::Values(Variant{1}, Variant{2}, Variant{4}, Variant{8}, Variant{4, 2},
                                           Variant{4, 1, false, 100}, Variant{1, 2, true}, Variant{3, 1, true}),
                         [](const ::testing::TestParamInfo<Variant>& info) {
                           const Variant& v = info.param;
                           return "Ranks" + std::to_string(v.ranks) + "Workers" + std::to_string(v.workers) +
                                  (v.deferred ? "Deferred" : "") + (v.chunk_bytes > 0 ? "Chunked" : "");
                         });

}  // namespace
}  // namespace embps::testing
