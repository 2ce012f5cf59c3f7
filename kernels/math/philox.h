// Philox4x32-10, the counter-based generator behind stochastic rounding and initial rows.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Test vectors:
// tests/golden.
//
// Both uses draw from (key, global row, t, global column) alone, so that a value does not depend on backend, thread
// count or placement. Keys: kernels/api/random_key.h.
#pragma once
#include <cstdint>

#include "kernels/math/host_device.h"

namespace embps::kernels {

struct PhiloxBlock {
  uint32_t word[4];
};

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;

// One block of 128 random bits. Key words: low half of `key` first.
EMBPS_HOST_DEVICE constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, uint64_t key) {
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter.word[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return counter;
}

// The counter of a (row, step, block of columns). Rows and steps count in 48 bits.
EMBPS_HOST_DEVICE constexpr PhiloxBlock PhiloxCounter(uint64_t global_row, uint64_t step, uint32_t column_block) {
  return {{static_cast<uint32_t>(global_row),
           static_cast<uint32_t>((global_row >> 32) & 0xffffu) | static_cast<uint32_t>((step >> 32) & 0xffffu) << 16,
           static_cast<uint32_t>(step), column_block}};
}

inline constexpr int kRoundingColumnsPerBlock = 8;  // 16 bits for each column
inline constexpr int kInitialColumnsPerBlock = 4;   // 32 bits for each column

// The 16 bits of one column for stochastic rounding: column c of a block takes word c / 2, the low half if c is even.
EMBPS_HOST_DEVICE constexpr uint32_t RoundingBits(const PhiloxBlock& block, uint32_t global_column) {
  const uint32_t c = global_column % kRoundingColumnsPerBlock;
  return block.word[c / 2] >> (c % 2 * 16) & 0xffffu;
}

// The 32 bits of one column of an initial row (t = 0).
EMBPS_HOST_DEVICE constexpr uint32_t InitialBits(uint64_t key, uint64_t global_row, uint32_t global_column) {
  return Philox4x32(PhiloxCounter(global_row, 0, global_column / kInitialColumnsPerBlock), key)
      .word[global_column % kInitialColumnsPerBlock];
}

}  // namespace embps::kernels
