// Where decoded batches live: pinned host memory of the backend.
#pragma once
#include <memory>

#include "kernels/api/backend.h"
#include "proto/wire/batch_decoder.h"

namespace embps {

// The backend must outlive what it gives.
wire::AllocateFn HostMemory(kernels::Backend& backend);

}  // namespace embps
