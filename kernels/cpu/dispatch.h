// Which instruction set the kernels run on. Every kernel file is compiled for AVX3 (AVX-512 F, BW, DQ, VL), AVX2,
// SSE4 and plain SSE2 (Highway calls it SCALAR with g++ 12 and EMU128 with clang), and picks the best that the CPU has
// at run time. Results are the same bits on each.
#pragma once
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace embps::kernels::cpu {

// Names of the targets that this CPU can run, best first: "AVX3", "AVX2", "SSE4" and the fallback.
std::vector<std::string> DispatchTargets();

// The target that kernels run on now.
std::string CurrentDispatchTarget();

// Makes every kernel of the process run on `target`, or on the best again when it is empty. Call while no kernel runs.
// False when the CPU cannot run it or no such target was compiled; nothing changes then.
bool ForceDispatchTarget(absl::string_view target);

}  // namespace embps::kernels::cpu
