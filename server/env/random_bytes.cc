#include "server/env/random_bytes.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "proto/base/check.h"

namespace embps {

std::string RandomBytes(int count) {
  EMBPS_CHECK(count >= 0);
  std::string bytes(static_cast<size_t>(count), '\0');
  for (size_t filled = 0; filled < bytes.size();) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    EMBPS_CHECK(got > 0);
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

uint64_t RandomNonzero64() {
  uint64_t value = 0;
  while (value == 0) {
    const std::string bytes = RandomBytes(sizeof(value));
    std::memcpy(&value, bytes.data(), sizeof(value));
  }
  return value;
}

}  // namespace embps
