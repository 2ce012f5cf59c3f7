// CHECK for broken internal invariants only; anything from the network, the disk or the user becomes a Status.
#pragma once
#include <cstdio>
#include <cstdlib>

#define EMBPS_CHECK(condition)                                                           \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
