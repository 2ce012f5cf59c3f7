// Random tables, placements and batches against sums in plain loops. Rows, weights and gradients are small integers, so
// everything but MEAN is exact in any order of addition.
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "embps/error.h"
#include "gtest/gtest.h"
#include "proto/base/float16.h"
#include "tests/unit/client/fake_cluster.h"

namespace embps::client {
namespace {

struct Case {
  std::vector<TableConfig> tables;
  KeyedJaggedTensor kjt;
  bool drop = false;
  bool token = false;
  DataType dtype = DataType::kFp32;
};

int Draw(std::mt19937& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

Case DrawCase(std::mt19937& random, int nodes) {
  Case drawn;
  const int table_count = Draw(random, 1, 4);
  int features = 0;
  for (int t = 0; t < table_count; ++t) {
    std::vector<std::string> names;
    const int own = Draw(random, 1, 2);
    for (int i = 0; i < own; ++i) names.push_back(absl::StrCat("f", features++));
    if (t > 0 && Draw(random, 0, 2) == 0) names.push_back("f0");
    const auto pooling = static_cast<Pooling>(Draw(random, 0, 2));
    const auto type = static_cast<ShardingType>(Draw(random, 0, 5));
    const int dims[] = {1, 2, 3, 4, 7, 8, 16};
    TableConfig config =
        MakeTable(absl::StrCat("t", t), Draw(random, 1, 40), dims[Draw(random, 0, 6)], names, pooling, type);
    if (type == ShardingType::kTableWise) config.sharding.node = Draw(random, 0, nodes - 1);
    config.spec.id_type = Draw(random, 0, 1) == 0 ? IdType::kInt64 : IdType::kInt32;
    drawn.tables.push_back(config);
  }
  drawn.drop = Draw(random, 0, 2) == 0;
  drawn.token = Draw(random, 0, 2) == 0;
  KeyedJaggedTensor& kjt = drawn.kjt;
  for (int f = 0; f < features; ++f) {
    if (Draw(random, 0, 5) > 0) kjt.keys.push_back(absl::StrCat("f", f));
  }
  std::shuffle(kjt.keys.begin(), kjt.keys.end(), random);
  const int form = Draw(random, 0, 3);  // 0, 1 equal batch; 2 variable; 3 variable and expanded
  const int batch = Draw(random, 0, 5);
  bool pooled_only = true;
  for (const TableConfig& table : drawn.tables) pooled_only &= table.pooling == Pooling::kSum;
  kjt.weighted = pooled_only && Draw(random, 0, 1) == 0;
  for (const std::string& key : kjt.keys) {
    const int strides = form < 2 ? batch : Draw(random, form == 3 ? 1 : 0, 5);
    if (form >= 2) kjt.stride_per_key.push_back(strides);
    int64_t rows = 1 << 20;
    for (const TableConfig& table : drawn.tables) {
      for (const std::string& name : table.features) {
        if (name == key) rows = std::min(rows, table.spec.row_count);
      }
    }
    for (int b = 0; b < strides; ++b) {
      const int length = Draw(random, 0, 1) == 0 ? 0 : Draw(random, 0, 6);
      kjt.lengths.push_back(length);
      for (int i = 0; i < length; ++i) {
        int64_t id = Draw(random, 0, static_cast<int>(rows) - 1);
        if (drawn.drop && Draw(random, 0, 4) == 0) id = Draw(random, 0, 1) == 0 ? -1 : 1000;
        kjt.values.push_back(id);
        if (kjt.weighted) kjt.weights.push_back(static_cast<float>(Draw(random, -3, 3)));
      }
    }
    if (form == 3) {
      std::vector<int64_t>& inverse = kjt.inverse_indices.emplace_back();
      for (int b = 0; b < batch; ++b) inverse.push_back(Draw(random, 0, strides - 1));
    }
  }
  if (Draw(random, 0, 2) == 0) {
    kjt.values32.assign(kjt.values.begin(), kjt.values.end());
    kjt.values.clear();
  }
  const DataType types[] = {DataType::kFp32, DataType::kFp32, DataType::kFp16, DataType::kBf16};
  drawn.dtype = types[Draw(random, 0, 3)];
  return drawn;
}

// A batch as lists: what each (table, feature) pair sees, expanded to the result's samples.
struct PlainBag {
  std::vector<int64_t> ids;  // -1 = out of range
  std::vector<float> weights;
  int64_t kept = 0;
};

std::vector<PlainBag> PlainBags(const Case& c, size_t feature, int64_t rows) {
  const KjtView kjt = c.kjt;
  std::vector<PlainBag> bags;
  size_t slot = 0, id = 0;
  for (size_t f = 0; f <= feature; ++f) {
    for (int64_t b = 0; b < kjt.stride(static_cast<int64_t>(f)); ++b, ++slot) {
      PlainBag bag;
      for (int64_t i = 0; i < kjt.lengths[slot]; ++i, ++id) {
        const int64_t value = kjt.values32.empty() ? kjt.values[id] : kjt.values32[id];
        const bool good = value >= 0 && value < rows;
        bag.ids.push_back(good ? value : -1);
        bag.weights.push_back(kjt.weighted ? kjt.weights[id] : 1.0f);
        bag.kept += good;
      }
      if (f == feature) bags.push_back(std::move(bag));
    }
  }
  if (kjt.inverse_indices.empty()) return bags;
  std::vector<PlainBag> expanded;
  for (int64_t s : kjt.inverse_indices[feature]) expanded.push_back(bags[static_cast<size_t>(s)]);
  return expanded;
}

float Element(const std::shared_ptr<char>& data, DataType type, int64_t i) {
  const auto* half = reinterpret_cast<const uint16_t*>(data.get());
  if (type == DataType::kFp16) return HalfToFloat(half[i]);
  if (type == DataType::kBf16) return BfloatToFloat(half[i]);
  return reinterpret_cast<const float*>(data.get())[i];
}

float Round(float value, DataType type) {
  if (type == DataType::kFp16) return HalfToFloat(FloatToHalf(value));
  if (type == DataType::kBf16) return BfloatToFloat(FloatToBfloat(value));
  return value;
}

class PropertyTest : public ::testing::TestWithParam<int> {
 protected:
  // Feature names in table-config order with their place in the KJT.
  void ForEachOutput(const Case& c,
                     const std::function<void(size_t table, size_t feature, const std::string& name)>& visit) {
    std::map<std::string, int> fed;
    for (const TableConfig& table : c.tables) {
      for (const std::string& name : table.features) ++fed[name];
    }
    for (size_t t = 0; t < c.tables.size(); ++t) {
      for (const std::string& name : c.tables[t].features) {
        const auto at = std::find(c.kjt.keys.begin(), c.kjt.keys.end(), name);
        if (at == c.kjt.keys.end()) continue;
        visit(t, static_cast<size_t>(at - c.kjt.keys.begin()), fed[name] > 1 ? absl::StrCat(name, "@t", t) : name);
      }
    }
  }
};

// Runs a lookup and a push of the drawn case and compares all outputs and all rows.
TEST_P(PropertyTest, LookupsAndPushesEqualPlainLoops) {
  const int nodes = 1 + GetParam() % 3;
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  SCOPED_TRACE(absl::StrCat("seed ", GetParam()));
  FakeCluster cluster(nodes == 1   ? std::vector<int>{2}
                      : nodes == 2 ? std::vector<int>{1, 2}
                                   : std::vector<int>{1, 1, 1});
  const auto client = cluster.ConnectOrDie();
  const Case c = DrawCase(random, nodes);
  const auto created = client->CreateTables(c.tables);
  ASSERT_TRUE(created.ok()) << created.status();

  LookupOptions options;
  options.output_dtype = c.dtype;
  options.want_token = c.token;
  if (c.drop) options.out_of_range_policy = OutOfRangePolicy::kDrop;
  const auto result = Lookup(*client, c.kjt, options);
  ASSERT_TRUE(result.ok()) << result.status();

  // Gradients in the result's own layout, and what each table should become.
  std::vector<float> pooled_grads(static_cast<size_t>(result->pooled.element_count));
  for (float& g : pooled_grads) g = static_cast<float>(Draw(random, -4, 4));
  std::vector<std::vector<float>> sequence_grads;
  std::vector<std::vector<double>> tables;
  for (const TableConfig& config : c.tables) {
    std::vector<double>& rows = tables.emplace_back();
    for (int64_t r = 0; r < config.spec.row_count; ++r) {
      for (int64_t d = 0; d < config.spec.dim; ++d) rows.push_back(InitialValue(r, d));
    }
  }
  size_t sequence = 0;
  std::set<std::string> names;
  ForEachOutput(c, [&](size_t t, size_t feature, const std::string& name) {
    const TableConfig& config = c.tables[t];
    const int64_t dim = config.spec.dim;
    const std::vector<PlainBag> bags = PlainBags(c, feature, config.spec.row_count);
    names.insert(name);
    if (config.pooling == Pooling::kNone) {
      const SequenceTensor& tensor = result->sequences.at(sequence++);
      EXPECT_EQ(tensor.name, name);
      std::vector<float>& grads = sequence_grads.emplace_back();
      int64_t row = 0;
      for (size_t b = 0; b < bags.size(); ++b) {
        EXPECT_EQ(tensor.lengths.at(b), static_cast<int64_t>(bags[b].ids.size()));
        for (int64_t id : bags[b].ids) {
          for (int64_t d = 0; d < dim; ++d) {
            const float expected = id < 0 ? 0.0f : InitialValue(id, d);
            ASSERT_EQ(Element(tensor.data, c.dtype, row * dim + d), Round(expected, c.dtype)) << name;
            grads.push_back(static_cast<float>(Draw(random, -4, 4)));
            if (id >= 0) tables[t][static_cast<size_t>(id * dim + d)] -= grads.back();
          }
          ++row;
        }
      }
      EXPECT_EQ(tensor.row_count, row);
      return;
    }
    const int index = result->pooled.Find(name);
    ASSERT_GE(index, 0) << name;
    const int64_t step = result->pooled.variable_batch ? dim : result->pooled.stride();
    for (size_t b = 0; b < bags.size(); ++b) {
      const double divisor =
          config.pooling == Pooling::kMean ? static_cast<double>(std::max<int64_t>(1, bags[b].kept)) : 1.0;
      for (int64_t d = 0; d < dim; ++d) {
        const int64_t at = result->pooled.offset(static_cast<size_t>(index)) + static_cast<int64_t>(b) * step + d;
        double sum = 0;
        for (size_t i = 0; i < bags[b].ids.size(); ++i) {
          const int64_t id = bags[b].ids[i];
          if (id < 0) continue;
          sum += double{InitialValue(id, d)} * bags[b].weights[i] / divisor;
          tables[t][static_cast<size_t>(id * dim + d)] -=
              double{pooled_grads[static_cast<size_t>(at)]} * bags[b].weights[i] / divisor;
        }
        const float got = Element(result->pooled.data, c.dtype, at);
        if (config.pooling == Pooling::kMean) {
          const double slack = c.dtype == DataType::kFp32 ? 1e-4 : c.dtype == DataType::kFp16 ? 0.1 : 0.6;
          ASSERT_NEAR(got, sum, slack) << name;
        } else {
          ASSERT_EQ(got, Round(static_cast<float>(sum), c.dtype)) << name;
        }
      }
    }
  });
  EXPECT_EQ(sequence, result->sequences.size());
  for (const std::string& name : result->pooled.names) EXPECT_TRUE(names.count(name)) << name;

  std::vector<absl::Span<const float>> spans(sequence_grads.begin(), sequence_grads.end());
  PushOptions push;
  push.out_of_range_policy = options.out_of_range_policy;
  push.token = result->token;
  const PushOutcome outcome = PushGrad(*client, c.kjt, Gradients::Of(pooled_grads, spans), push);
  ASSERT_TRUE(outcome.ok()) << outcome.status;
  for (size_t t = 0; t < c.tables.size(); ++t) {
    std::vector<int64_t> ids;
    for (int64_t r = 0; r < c.tables[t].spec.row_count; ++r) ids.push_back(r);
    const auto rows = client->ReadRows(c.tables[t].spec.name, ids, false);
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (size_t i = 0; i < tables[t].size(); ++i) {
      ASSERT_NEAR(rows->values[i], tables[t][i], c.tables[t].pooling == Pooling::kMean ? 1e-3 : 0.0)
          << c.tables[t].spec.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PropertyTest, ::testing::Range(0, 240));

}  // namespace
}  // namespace embps::client
