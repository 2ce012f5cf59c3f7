// Small deterministic random numbers: a pure function of (seed, counters), so that any sample can be made on its own.
#pragma once
#include <cmath>
#include <cstdint>

namespace embps::examples {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class RandomBits {
 public:
  RandomBits(uint64_t seed, uint64_t counter) : state_(Mix(seed ^ Mix(counter))) {}
  uint64_t Next() { return state_ = Mix(state_); }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // [0, 1)
  double Normal() {                                                         // Box and Muller 1958
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
    return radius * std::cos(6.283185307179586 * Uniform());
  }

 private:
  uint64_t state_;
};

}  // namespace embps::examples
