#include "kernels/cpu/policy.h"

#include "hwy/detect_compiler_arch.h"
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace embps::kernels::cpu {
namespace {

struct CpuId {
  bool amd = false;
  bool intel = false;
  int family = 0;
};

CpuId ReadCpuId() {
  CpuId id;
#if HWY_ARCH_X86
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx)) return id;
  id.amd = ebx == signature_AMD_ebx;
  id.intel = ebx == signature_INTEL_ebx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return id;
  id.family = (eax >> 8) & 0xf;
  if (id.family == 0xf) id.family += (eax >> 20) & 0xff;
#endif
  return id;
}

CpuPolicy Choose() {
  const CpuId id = ReadCpuId();
  CpuPolicy policy;
  if (id.amd && id.family <= 0x17) {
    policy.family = "zen1-2";
    policy.lookup_ahead_rows = 12;
    policy.row_prefetch = RowPrefetch::kPairsToL1;
  } else if (id.amd) {
    policy.family = "zen3+";
  } else if (id.intel) {
    policy.family = "intel";
  }
  return policy;
}

CpuPolicy& Current() {
  static CpuPolicy policy = Choose();
  return policy;
}

}  // namespace

const CpuPolicy& Policy() { return Current(); }
void SetPolicy(const CpuPolicy& policy) { Current() = policy; }

}  // namespace embps::kernels::cpu
