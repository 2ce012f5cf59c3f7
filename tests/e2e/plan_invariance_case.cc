#include "tests/e2e/plan_invariance_case.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace embps::testing {
namespace {

constexpr ShardingType kTypes[] = {ShardingType::kTableWise, ShardingType::kRowWise, ShardingType::kColumnWise,
                                   ShardingType::kTableRowWise, ShardingType::kDataParallel};
constexpr DataType kDataTypes[] = {DataType::kFp32, DataType::kFp16, DataType::kBf16};

// The `index`-th combination of a random order of all of them, another order in each pass.
Combination CombinationAt(uint64_t index) {
  std::vector<int> order(kCombinations);
  std::iota(order.begin(), order.end(), 0);
  Draw(index / kCombinations + 1000).Shuffle(order);
  const int c = order[index % kCombinations];
  return {kTypes[c % 5], static_cast<OptimizerType>(c / 5 % 8), kDataTypes[c / 40 % 3], static_cast<Pooling>(c / 120)};
}

// As many small tables as large ones, and the edges often.
int64_t DrawRows(Draw& draw) {
  constexpr int64_t kEdges[] = {1, 2, 3, 5, 7, 8};
  if (draw.OneIn(3)) return draw.Pick(kEdges);
  if (draw.OneIn(12)) return 5000;
  return draw.Int(1, int64_t{1} << draw.Int(3, 12));
}

OptimizerSpec DrawOptimizer(Draw& draw, OptimizerType type) {
  OptimizerSpec optimizer;
  optimizer.type = type;
  optimizer.learning_rate = draw.OneIn(8) ? 0.0f : draw.Real(0.01f, 0.3f);
  if (draw.OneIn(2)) optimizer.weight_decay = 0.01f;
  optimizer.weight_decay_mode = static_cast<WeightDecayMode>(draw.Int(0, 2));
  if (draw.OneIn(4)) optimizer.max_gradient = 0.5f;
  if (draw.OneIn(5)) optimizer.max_norm = draw.Real(0.5f, 2.0f);
  if (draw.OneIn(4)) optimizer.eps = 1e-3f;
  return optimizer;
}

DrawnTable DrawTable(Draw& draw, int index, const Combination& combination) {
  constexpr int32_t kDims[] = {1, 2, 3, 4, 7, 8, 16, 33, 64, 128, 200};
  DrawnTable table;
  TableSpec& spec = table.config.spec;
  spec.name = absl::StrCat("t", index);
  spec.row_count = DrawRows(draw);
  spec.dim = draw.Pick(kDims);
  spec.row_type = std::get<2>(combination);
  spec.id_type = draw.OneIn(2) ? IdType::kInt32 : IdType::kInt64;
  spec.optimizer = DrawOptimizer(draw, std::get<1>(combination));
  spec.initializer = {InitializerKind::kUniform, -1.0f, 1.0f, static_cast<uint64_t>(draw.Int(0, 1000))};
  if (draw.OneIn(3)) spec.initializer.kind = InitializerKind::kNormal, spec.initializer.a = 0.5f;
  if (draw.OneIn(6)) spec.initializer = {};
  spec.nearest_rounding = draw.OneIn(3);
  table.config.pooling = std::get<3>(combination);
  table.config.sharding.type = std::get<0>(combination);
  if (table.config.sharding.type == ShardingType::kColumnWise) {
    table.config.sharding.column_slices = static_cast<int>(draw.Int(1, std::min(spec.dim, 6)));
  }
  table.home = static_cast<uint32_t>(draw.Int(0, 1 << 20));
  table.on_one_node = draw.OneIn(2);
  return table;
}

// Ids that every table of a feature accepts.
int64_t RowsOf(const std::vector<DrawnTable>& tables, const std::string& feature) {
  int64_t rows = INT64_MAX;
  for (const DrawnTable& table : tables) {
    const auto& names = table.config.features;
    if (std::find(names.begin(), names.end(), feature) != names.end()) {
      rows = std::min(rows, table.config.spec.row_count);
    }
  }
  return rows;
}

std::vector<std::string> AllFeatures(const std::vector<DrawnTable>& tables, bool summed_only) {
  std::vector<std::string> features, refused;
  for (const DrawnTable& table : tables) {
    auto& list = summed_only && table.config.pooling != Pooling::kSum ? refused : features;
    for (const std::string& name : table.config.features) {
      if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
    }
  }
  std::erase_if(features, [&](const std::string& name) {
    return std::find(refused.begin(), refused.end(), name) != refused.end();
  });
  return features;
}

// A left fold of many equal fp32 values drifts: beyond so many the tolerance of numerics.md does not bound the sum, so
// longer bags are of mixed rows.
constexpr int64_t kEqualIdsInBag = 32;
constexpr int64_t kMixedRows = 50;

// The ids of one feature of a batch.
struct FeatureDraw {
  int64_t bags = 0;
  int64_t rows = 0;
  bool empty = false;
  bool hot = false;       // one row more than 256 times, over many bags
  bool long_bag = false;  // one bag of several chunks of the canonical order
  bool needs_id = false;
  bool out_of_range = false;
};

void AppendBag(Draw& draw, const FeatureDraw& feature, int64_t length, KeyedJaggedTensor* kjt) {
  kjt->lengths.push_back(length);
  for (int64_t i = 0; i < length; ++i) {
    int64_t id = draw.Int(0, feature.rows - 1);
    if (length <= kEqualIdsInBag && draw.OneIn(3)) id = draw.Int(0, std::min<int64_t>(feature.rows, 3) - 1);
    if (feature.hot && length <= kEqualIdsInBag && !draw.OneIn(10)) id = feature.rows - 1;
    if (feature.out_of_range && draw.OneIn(8)) id = draw.OneIn(2) ? -1 : 5000 + draw.Int(0, 3);
    kjt->values.push_back(id);
    if (kjt->weighted) kjt->weights.push_back(draw.OneIn(10) ? 0.0f : draw.Real(-1, 1));
  }
}

void AppendFeature(Draw& draw, const FeatureDraw& feature, KeyedJaggedTensor* kjt) {
  for (int64_t bag = 0; bag < feature.bags; ++bag) {
    int64_t length = draw.OneIn(3) ? 0 : draw.Int(0, 5);
    if (feature.hot) length = draw.Int(kEqualIdsInBag - 8, kEqualIdsInBag);
    if (feature.long_bag && bag == 0) length = draw.Int(257, 700);
    if (feature.empty) length = 0;
    AppendBag(draw, feature, length, kjt);
    if (bag == 0 && feature.needs_id && length == 0) {
      kjt->lengths.back() = 1;
      kjt->values.push_back(draw.Int(0, feature.rows - 1));
    }
  }
}

void DrawKeys(Draw& draw, const std::vector<DrawnTable>& tables, bool first, KeyedJaggedTensor* kjt) {
  kjt->weighted = !first && draw.OneIn(3);
  kjt->keys = AllFeatures(tables, kjt->weighted);
  if (kjt->keys.empty()) {
    kjt->weighted = false;
    kjt->keys = AllFeatures(tables, false);
  }
  draw.Shuffle(kjt->keys);
  if (!first) kjt->keys.resize(static_cast<size_t>(draw.Int(1, static_cast<int64_t>(kjt->keys.size()))));
}

void DrawIds(Draw& draw, const std::vector<DrawnTable>& tables, bool first, bool out_of_range, KeyedJaggedTensor* kjt) {
  enum Form { kEqual, kVariable, kExpanded };
  constexpr Form kForms[] = {kEqual, kEqual, kVariable, kExpanded};
  constexpr int64_t kBatches[] = {0, 1, 2, 5, 17, 40};
  const Form form = draw.Pick(kForms);
  const auto one_key_in = [&](int64_t n) {
    return draw.OneIn(n) ? draw.Int(0, static_cast<int64_t>(kjt->keys.size()) - 1) : -1;
  };
  const int64_t hot = one_key_in(2), long_bag = one_key_in(3);
  const int64_t batch = hot >= 0 ? draw.Int(12, 40) : first ? draw.Int(1, 12) : draw.Pick(kBatches);
  const bool all_empty = !first && draw.OneIn(12);
  for (size_t f = 0; f < kjt->keys.size(); ++f) {
    FeatureDraw feature;
    feature.bags = form == kEqual ? batch : draw.Int(form == kExpanded || first ? 1 : 0, 12);
    feature.rows = RowsOf(tables, kjt->keys[f]);
    feature.hot = static_cast<int64_t>(f) == hot;
    if (feature.hot) feature.bags = std::max<int64_t>(feature.bags, 12);
    feature.long_bag = static_cast<int64_t>(f) == long_bag && feature.rows >= kMixedRows;
    feature.needs_id = first;
    feature.empty = !first && (all_empty || draw.OneIn(8));
    feature.out_of_range = out_of_range;
    if (form != kEqual) kjt->stride_per_key.push_back(feature.bags);
    AppendFeature(draw, feature, kjt);
    if (form != kExpanded) continue;
    std::vector<int64_t>& inverse = kjt->inverse_indices.emplace_back();
    for (int64_t b = 0; b < batch; ++b) inverse.push_back(draw.Int(0, feature.bags - 1));
  }
  if (draw.OneIn(3)) {
    kjt->values32.assign(kjt->values.begin(), kjt->values.end());
    kjt->values.clear();
  }
}

}  // namespace

bool DrawnTable::cuts_norm() const {
  if (config.sharding.column_slices < 2) return false;
  const OptimizerSpec& optimizer = config.spec.optimizer;
  const bool by_element = optimizer.type == OptimizerType::kSgd || optimizer.type == OptimizerType::kAdagrad ||
                          optimizer.type == OptimizerType::kAdam;
  return !by_element || optimizer.max_norm > 0;
}

TableConfig DrawnTable::PlacedOn(int nodes, int ranks) const {
  TableConfig placed = config;
  Sharding& sharding = placed.sharding;
  const int node = static_cast<int>(home % static_cast<uint32_t>(nodes));
  if (sharding.type == ShardingType::kTableWise) {
    sharding.node = node;
    sharding.rank = static_cast<int>(home / 7 % static_cast<uint32_t>(ranks));
  }
  if (sharding.type == ShardingType::kTableRowWise || sharding.type == ShardingType::kDataParallel) {
    sharding.node = node;
  }
  if (sharding.type == ShardingType::kColumnWise && on_one_node) sharding.node = node;
  return placed;
}

TableConfig DrawnTable::Reference() const {
  TableConfig reference = config;
  if (!cuts_norm()) reference.sharding = {ShardingType::kTableWise, 0, 0, 0};
  return reference;
}

std::vector<DrawnTable> DrawTables(uint64_t seed) {
  Draw draw(seed * 2 + 1);
  std::vector<DrawnTable> tables;
  int features = 0;
  for (int t = 0; t < kTablesPerSeed; ++t) {
    DrawnTable& table =
        tables.emplace_back(DrawTable(draw, t, CombinationAt((seed - 1) * kTablesPerSeed + static_cast<uint64_t>(t))));
    for (int64_t i = draw.Int(1, 3); i > 0; --i) table.config.features.push_back(absl::StrCat("f", features++));
    // A feature of an earlier table feeds this one too.
    if (t > 0 && draw.OneIn(3)) table.config.features.push_back(absl::StrCat("f", draw.Int(0, features / 2)));
    std::vector<std::string>& names = table.config.features;
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    draw.Shuffle(names);
  }
  draw.Shuffle(tables);
  return tables;
}

DrawnBatch DrawBatch(Draw& draw, const std::vector<DrawnTable>& tables, bool first) {
  DrawnBatch batch;
  const bool drop = draw.OneIn(3);
  DrawKeys(draw, tables, first, &batch.kjt);
  DrawIds(draw, tables, first, drop, &batch.kjt);
  batch.with_token = draw.OneIn(3);
  batch.lookup.want_token = batch.with_token;
  if (draw.OneIn(3)) batch.lookup.output_dtype = draw.Pick(kDataTypes);
  if (drop) batch.lookup.out_of_range_policy = batch.push.out_of_range_policy = OutOfRangePolicy::kDrop;
  batch.grad_type = draw.OneIn(2) ? DataType::kFp32 : draw.Pick(kDataTypes);
  if (draw.OneIn(3)) batch.push.grad_scale = draw.Real(-1, 2);
  if (draw.OneIn(4)) {
    const DrawnTable& table = *std::find_if(tables.begin(), tables.end(), [&](const DrawnTable& candidate) {
      const std::vector<std::string>& names = candidate.config.features;
      return std::find(names.begin(), names.end(), batch.kjt.keys[0]) != names.end();
    });
    batch.push.learning_rates.emplace_back(table.config.spec.name, draw.Real(0, 0.2f));
  }
  if (draw.OneIn(8)) {
    batch.push.nonfinite_policy = NonfinitePolicy::kDropRows;
    batch.nonfinite_grads = static_cast<int>(draw.Int(1, 4));
  }
  return batch;
}

std::vector<std::string> TraitsOf(const DrawnBatch& batch) {
  constexpr int64_t kHotOccurrences = 256;
  const KeyedJaggedTensor& kjt = batch.kjt;
  std::map<int64_t, int64_t> occurrences;
  for (int64_t id : kjt.values) ++occurrences[id];
  for (int64_t id : kjt.values32) ++occurrences[id];
  const auto is_hot = [](const auto& entry) { return entry.second > kHotOccurrences; };
  std::vector<std::string> traits;
  const auto add = [&](bool has, const char* name) {
    if (has) traits.emplace_back(name);
  };
  add(kjt.lengths.empty(), "empty batch");
  add(!kjt.lengths.empty() && occurrences.empty(), "bags without ids");
  add(std::ranges::any_of(occurrences, is_hot), "hot row");
  add(!kjt.stride_per_key.empty() && kjt.inverse_indices.empty(), "variable batch");
  add(!kjt.inverse_indices.empty(), "inverse indices");
  add(kjt.weighted, "weights");
  add(batch.with_token, "lookup token");
  add(batch.lookup.out_of_range_policy == OutOfRangePolicy::kDrop, "dropped ids");
  add(batch.nonfinite_grads > 0, "dropped gradients");
  return traits;
}

}  // namespace embps::testing
