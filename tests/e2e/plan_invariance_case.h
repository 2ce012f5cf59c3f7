// What one seed of the plan invariance test draws: tables with their shardings, and batches. All of it depends on the
// seed alone, nothing on a cluster.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "embps/client.h"

namespace embps::testing {

// Equal numbers with every standard library, which its distributions do not promise.
class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  int64_t Int(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  float Real(float low, float high) { return low + (high - low) * static_cast<float>(engine_() >> 40) * 0x1p-24f; }
  bool OneIn(int64_t n) { return Int(1, n) == 1; }
  template <class T, size_t N>
  T Pick(const T (&from)[N]) {
    return from[Int(0, N - 1)];
  }
  template <class T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[static_cast<size_t>(Int(0, i - 1))]);
  }

 private:
  std::mt19937_64 engine_;
};

// What the test must have hit in every combination.
using Combination = std::tuple<ShardingType, OptimizerType, DataType, Pooling>;
inline constexpr int kCombinations = 5 * 8 * 3 * 3;
inline constexpr int kTablesPerSeed = 7;

struct DrawnTable {
  TableConfig config;        // config.sharding: the type and the column slices
  uint32_t home = 0;         // node and rank, each modulo what the cluster has
  bool on_one_node = false;  // column slices

  Combination combination() const {
    return {config.sharding.type, config.spec.optimizer.type, config.spec.row_type, config.pooling};
  }
  // Column slices of an optimizer with a norm over the row: the norm is then one of the slice.
  bool cuts_norm() const;
  // On a cluster of `nodes` nodes of `ranks` ranks.
  TableConfig PlacedOn(int nodes, int ranks) const;
  // On one rank: whole, or in the same slices where the result depends on them.
  TableConfig Reference() const;
};

struct DrawnBatch {
  KeyedJaggedTensor kjt;
  LookupOptions lookup;
  PushOptions push;  // without token
  bool with_token = false;
  DataType grad_type = DataType::kFp32;
  int nonfinite_grads = 0;  // only with NonfinitePolicy::kDropRows
};

// `seed` >= 1. Seeds s, s + 1, ... go through all combinations, kTablesPerSeed at a time.
std::vector<DrawnTable> DrawTables(uint64_t seed);

// What a batch has of the cases that the test must have met, such as "hot row".
std::vector<std::string> TraitsOf(const DrawnBatch& batch);
inline constexpr int kTraits = 9;

// The first batch of a seed has an id for every table; later ones are drawn from everything that a batch may be.
DrawnBatch DrawBatch(Draw& draw, const std::vector<DrawnTable>& tables, bool first);

}  // namespace embps::testing
