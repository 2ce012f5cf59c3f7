// The oracle: every operation in double and plain loops, derived from docs and not from the fast kernels. Linked into
// tests only. Results that are fp32 by contract agree within tolerances, integer results exactly.
#pragma once
#include <memory>

#include "kernels/api/backend.h"

namespace embps::kernels::ref {

std::unique_ptr<Backend> NewRefBackend();

}  // namespace embps::kernels::ref
