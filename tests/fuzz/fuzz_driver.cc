// Runs a fuzzer without libFuzzer: seeds, then mutations of them, for a fixed number of iterations. The same seed gives
// the same inputs. `fuzzer [iterations [seed]]`, or `fuzzer file...` to run stored inputs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/fuzz/fuzz.h"

namespace {

using Random = std::mt19937_64;

constexpr uint64_t kInteresting[] = {0,
                                     1,
                                     2,
                                     7,
                                     8,
                                     127,
                                     128,
                                     255,
                                     256,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xffffffffffffffff,
                                     0x7f800000,
                                     0x7fc00000,
                                     0x7c00};

// Often as long as an array element, so that what follows stays aligned.
size_t Stretch(Random& random) { return random() % 2 == 0 ? size_t{1} << random() % 4 : 1 + random() % 9; }

// One random edit of `bytes`.
void Edit(Random& random, const std::vector<std::string>& seeds, std::string* bytes) {
  const size_t at = bytes->empty() ? 0 : random() % bytes->size();
  switch (random() % 8) {
    case 0:
      if (!bytes->empty()) (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random() % 8));
      break;
    case 1:
      if (!bytes->empty()) (*bytes)[at] = static_cast<char>(random());
      break;
    case 2:
      bytes->insert(at, Stretch(random), static_cast<char>(random()));
      break;
    case 3:
      if (!bytes->empty()) bytes->erase(at, Stretch(random));
      break;
    case 4: {  // an interesting number over what is there
      const uint64_t value = kInteresting[random() % std::size(kInteresting)];
      const size_t width = size_t{1} << random() % 4;
      if (at + width <= bytes->size()) bytes->replace(at, width, reinterpret_cast<const char*>(&value), width);
      break;
    }
    case 5: {  // a stretch of another seed
      const std::string& other = seeds[random() % seeds.size()];
      if (!other.empty()) bytes->insert(at, other.substr(random() % other.size(), 1 + random() % 64));
      break;
    }
    case 6:
      bytes->resize(at);
      break;
    default: {  // a stretch of its own, again
      const std::string copy = bytes->substr(at, 1 + random() % 16);
      bytes->insert(bytes->empty() ? 0 : random() % bytes->size(), copy);
    }
  }
}

int RunFiles(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    embps::fuzz::FuzzOne(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  embps::fuzz::SilenceParserLog();
  uint64_t iterations = 5000, seed = 1;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &iterations)) return RunFiles(argc, argv);
  if (argc > 2 && !absl::SimpleAtoi(argv[2], &seed)) return 1;
  std::printf("%s: %llu iterations, seed %llu\n", argv[0], static_cast<unsigned long long>(iterations),
              static_cast<unsigned long long>(seed));
  const std::vector<std::string> seeds = embps::fuzz::Seeds();
  for (const std::string& input : seeds) embps::fuzz::FuzzOne(input);
  Random random(seed);
  for (uint64_t i = 0; i < iterations; ++i) {
    std::string input = seeds[random() % seeds.size()];
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) Edit(random, seeds, &input);
    embps::fuzz::FuzzOne(input);
  }
  return 0;
}
