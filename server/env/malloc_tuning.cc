#include "server/env/malloc_tuning.h"

#include <malloc.h>

namespace embps {

void TuneMalloc() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

}  // namespace embps
