// The random bits of stochastic rounding and initial rows, against tests/golden/philox.txt.
#include "kernels/math/philox.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/api/random_key.h"

namespace embps::kernels {
namespace {

// The vectors of one kind: the words of each of its lines.
std::vector<std::vector<std::string>> Vectors(const std::string& kind) {
  std::ifstream file(EMBPS_GOLDEN_DIR "/philox.txt");
  EXPECT_TRUE(file.is_open());
  std::vector<std::vector<std::string>> vectors;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != kind) continue;
    vectors.emplace_back();
    while (words >> word) vectors.back().push_back(word);
  }
  return vectors;
}

uint64_t Hex(const std::string& text) { return std::stoull(text, nullptr, 16); }
uint64_t Decimal(const std::string& text) { return std::stoull(text); }

TEST(PhiloxTest, BlocksAreThePublishedKnownAnswers) {
  const auto vectors = Vectors("block");
  ASSERT_EQ(vectors.size(), 3u);
  for (const auto& v : vectors) {
    ASSERT_EQ(v.size(), 10u);
    PhiloxBlock counter;
    for (int i = 0; i < 4; ++i) counter.word[i] = static_cast<uint32_t>(Hex(v[i]));
    const PhiloxBlock result = Philox4x32(counter, Hex(v[4]) | Hex(v[5]) << 32);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(result.word[i], Hex(v[6 + i])) << "word " << i;
  }
}

TEST(PhiloxTest, KeysDependOnNameSeedAndDomain) {
  for (const auto& v : Vectors("key")) {
    EXPECT_EQ(RandomKey(v[0], Decimal(v[1]), RandomDomain::kRounding), Hex(v[2]));
    EXPECT_EQ(RandomKey(v[0], Decimal(v[1]), RandomDomain::kInitialRows), Hex(v[3]));
  }
  EXPECT_EQ(Fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a64("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(SplitMix64(0), 0xe220a8397b1dcdafu);
  EXPECT_NE(RandomKey("a", 1, RandomDomain::kRounding), RandomKey("a", 2, RandomDomain::kRounding));
  EXPECT_NE(RandomKey("a", 1, RandomDomain::kRounding), RandomKey("b", 1, RandomDomain::kRounding));
}

TEST(PhiloxTest, RoundingBitsUse48BitsOfRowAndStep) {
  const uint64_t key = RandomKey("user_id", 42, RandomDomain::kRounding);
  const auto vectors = Vectors("rounding");
  ASSERT_EQ(vectors.size(), 5u);
  for (const auto& v : vectors) {
    const auto column = static_cast<uint32_t>(Decimal(v[2]));
    const PhiloxBlock counter = PhiloxCounter(Decimal(v[0]), Decimal(v[1]), column / kRoundingColumnsPerBlock);
    EXPECT_EQ(RoundingBits(Philox4x32(counter, key), column), Hex(v[3])) << v[0];
  }
}

TEST(PhiloxTest, InitialBitsAreOneWordPerColumn) {
  const uint64_t key = RandomKey("user_id", 42, RandomDomain::kInitialRows);
  const auto vectors = Vectors("initial");
  ASSERT_EQ(vectors.size(), 3u);
  for (const auto& v : vectors) {
    EXPECT_EQ(InitialBits(key, Decimal(v[0]), static_cast<uint32_t>(Decimal(v[1]))), Hex(v[2])) << v[0];
  }
}

}  // namespace
}  // namespace embps::kernels
