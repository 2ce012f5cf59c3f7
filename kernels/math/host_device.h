// Marks functions that both the host compiler and nvcc compile.
#pragma once

#ifdef __CUDACC__
#define EMBPS_HOST_DEVICE __host__ __device__
#else
#define EMBPS_HOST_DEVICE
#endif
