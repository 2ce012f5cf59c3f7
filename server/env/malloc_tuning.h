#pragma once

namespace embps {

// Keeps freed memory of payload size in the process (glibc gives it back and faults it in again for every call
// otherwise): M_TRIM_THRESHOLD 1 GiB, M_MMAP_THRESHOLD 32 MiB. Call once, first thing in main.
void TuneMalloc();

}  // namespace embps
