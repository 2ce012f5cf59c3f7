// Keys of the random numbers of a table: Rounding::key and InitRowsTask::key.
//   key = splitmix64(fnv1a64(table name) ^ seed ^ domain)
// Sources: FNV-1a 64 (Fowler, Noll, Vo); splitmix64 (Steele, Lea, Flood, OOPSLA 2014). Test vectors: tests/golden.
#pragma once
#include <cstdint>

#include "absl/strings/string_view.h"

namespace embps::kernels {

// What the numbers are for; the same table and seed give independent numbers in different domains. The values are
// ASCII.
enum class RandomDomain : uint64_t {
  kRounding = 0x726f756e64696e67,     // "rounding"
  kInitialRows = 0x696e69745f726f77,  // "init_row"
};

constexpr uint64_t Fnv1a64(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// One step of the splitmix64 generator from state `x`.
constexpr uint64_t SplitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

constexpr uint64_t RandomKey(absl::string_view table_name, uint64_t seed, RandomDomain domain) {
  return SplitMix64(Fnv1a64(table_name) ^ seed ^ static_cast<uint64_t>(domain));
}

}  // namespace embps::kernels
