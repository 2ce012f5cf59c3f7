// What a fuzzer is: a check of one input, and inputs to start from. fuzz_driver.cc runs it small in every test pass,
// fuzz_libfuzzer.cc makes it a libFuzzer target (EMBPS_FUZZ=ON, clang).
#pragma once
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace embps::fuzz {

// Defined once by each fuzzer. Aborts through EMBPS_FUZZ_CHECK when a promise is broken.
void FuzzOne(absl::string_view input);
std::vector<std::string> Seeds();

// Once, before the first input: parsers of random bytes would fill the log.
void SilenceParserLog();

// Prints what failed and the input as hex, then aborts.
[[noreturn]] void Fail(const char* file, int line, absl::string_view what, absl::string_view input);

}  // namespace embps::fuzz

#define EMBPS_FUZZ_CHECK(condition, what, input)                                          \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      embps::fuzz::Fail(__FILE__, __LINE__, absl::StrCat(#condition, ": ", what), input); \
    }                                                                                     \
  } while (false)
