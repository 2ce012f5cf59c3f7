// Seeded jagged ids for tests, with the awkward cases always among them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace embps::testing {

struct Bags {
  std::vector<int64_t> offsets;  // [B + 1]
  std::vector<int64_t> ids;      // [L]
  std::vector<float> weights;    // [L]
  int64_t bag_count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t id_count() const { return static_cast<int64_t>(ids.size()); }
  int64_t length(int64_t bag) const { return offsets[bag + 1] - offsets[bag]; }
};

// One bag per entry of `lengths`, ids in [0, row_count), half of them from a few hot rows. The last id is row_count
// - 1.
inline Bags MakeBags(const std::vector<int64_t>& lengths, int64_t row_count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bags bags;
  bags.offsets.push_back(0);
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t range = random() % 2 == 0 ? row_count : std::min<int64_t>(row_count, 3);
      bags.ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(range)));
      bags.weights.push_back(static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 500.0f);
    }
    bags.offsets.push_back(static_cast<int64_t>(bags.ids.size()));
  }
  if (!bags.ids.empty()) bags.ids.back() = row_count - 1;
  return bags;
}

// Empty, short, one chunk exactly, one more, and several chunks.
inline std::vector<int64_t> AwkwardLengths() { return {0, 1, 2, 0, 7, 20, 256, 257, 3, 600, 0, 1, 30, 0}; }

}  // namespace embps::testing
