#include "client/cpp/tools/bench_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace embps::tools {
namespace {

// Steele, Lea and Flood's splitmix64: the state counts up, the output mixes it.
uint64_t NextBits(uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t bits = state;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

}  // namespace

KeyedJaggedTensor RandomBatch(const BenchArguments& bench, const std::vector<std::string>& keys, uint64_t stream) {
  uint64_t state = bench.seed;
  state = NextBits(state) ^ stream;
  KeyedJaggedTensor kjt;
  kjt.keys = keys;
  kjt.lengths.assign(keys.size() * static_cast<size_t>(bench.batch_size), bench.bag_size);
  kjt.values.resize(kjt.lengths.size() * static_cast<size_t>(bench.bag_size));
  for (int64_t& id : kjt.values) {
    const double u = static_cast<double>(NextBits(state) >> 11) * 0x1p-53;
    id = std::min(bench.rows - 1, static_cast<int64_t>(static_cast<double>(bench.rows) * std::pow(u, bench.skew)));
  }
  return kjt;
}

double Latencies::Percentile(double share) const {
  if (us_.empty()) return 0;
  std::vector<double> sorted = us_;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  const size_t index = std::clamp<size_t>(rank, 1, sorted.size()) - 1;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<ptrdiff_t>(index));
  return sorted[index];
}

}  // namespace embps::tools
