// The libFuzzer entry of a fuzzer. Its seeds come in through the mutator, so no corpus files are needed.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  embps::fuzz::SilenceParserLog();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  embps::fuzz::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  static const std::vector<std::string> seeds = embps::fuzz::Seeds();
  if (size > 0 && seed % 64 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string& input = seeds[(seed / 64) % seeds.size()];
  const size_t bytes = std::min(input.size(), max_size);
  std::memcpy(data, input.data(), bytes);
  return LLVMFuzzerMutate(data, bytes, max_size);
}
