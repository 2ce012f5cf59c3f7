// row_copy on the CPU: rows between a shard and a dense fp32 block.
//
// Parallel over pieces of ids. Bytes moved: N * D * (item size + 4). Writing rounds to nearest and saturates.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/elements.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_copy.cc"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace embps::kernels::cpu::HWY_NAMESPACE {

template <class T>
void CopyRows(const RowCopyTask& task, int64_t begin, int64_t end) {
  const int32_t dim = task.dim;
  for (int64_t i = begin; i < end; ++i) {
    T* const row = static_cast<T*>(task.table) + task.ids[i] * dim;
    float* const values = task.values + i * task.value_stride;
    if (task.write) {
      ForEachVector(dim, [&](auto d, int32_t column)
                             HWY_ATTR { StoreElementsSaturating(hn::LoadU(d, values + column), d, row + column); });
    } else {
      ForEachVector(
          dim, [&](auto d, int32_t column) HWY_ATTR { hn::StoreU(LoadElements(d, row + column), d, values + column); });
    }
  }
}

void RowCopyPiece(const RowCopyTask& task, int64_t begin, int64_t end) {
  WithElementType(task.type, [&](auto* type) { CopyRows<std::remove_pointer_t<decltype(type)>>(task, begin, end); });
}

}  // namespace embps::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace embps::kernels::cpu {
namespace {
HWY_EXPORT(RowCopyPiece);
}  // namespace

void RowCopy(absl::Span<const RowCopyTask> tasks, ParallelFor& parallel) {
  constexpr int64_t kMinPieceIds = 512;
  ForEachPiece(
      tasks, parallel, kMinPieceIds, [](const RowCopyTask& task) { return task.id_count; },
      [](const RowCopyTask& task, int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(RowCopyPiece)(task, begin, end);
      });
}

}  // namespace embps::kernels::cpu
#endif  // HWY_ONCE
