#pragma once
#include <cstdint>
#include <string>

namespace embps {

// `count` bytes from the kernel's generator: session ids, lookup tokens. Unpredictable, unique across restarts.
std::string RandomBytes(int count);

// Never 0: table uids and incarnations.
uint64_t RandomNonzero64();

}  // namespace embps
