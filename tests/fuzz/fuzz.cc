#include "tests/fuzz/fuzz.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "google/protobuf/stubs/logging.h"

namespace embps::fuzz {

void SilenceParserLog() { google::protobuf::SetLogHandler(nullptr); }

void Fail(const char* file, int line, absl::string_view what, absl::string_view input) {
  std::fprintf(stderr, "%s:%d: %.*s\ninput: %s\n", file, line, static_cast<int>(what.size()), what.data(),
               absl::BytesToHexString(input).c_str());
  std::abort();
}

}  // namespace embps::fuzz
