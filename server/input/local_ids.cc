#include "server/input/local_ids.h"

#include <utility>

#include "proto/base/status_macros.h"

namespace embps {

absl::StatusOr<LocalIds> LocalIds::Create(const wire::DecodedBatch& batch, const wire::AllocateFn& allocate) {
  LocalIds out;
  for (const wire::TableSlice& table : batch.tables) {
    if (table.row_begin == 0 || table.id_count == 0) {
      out.ids_.push_back(table.ids);
      continue;
    }
    EMBPS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, allocate(table.id_count * int64_t{sizeof(int64_t)}));
    auto* local = static_cast<int64_t*>(memory.get());
    const int64_t* const ids = table.ids;
    const int64_t base = table.row_begin;
    for (int64_t i = 0; i < table.id_count; ++i) local[i] = ids[i] < 0 ? -1 : ids[i] - base;
    out.ids_.push_back(local);
    out.copies_.push_back(std::move(memory));
  }
  return out;
}

}  // namespace embps
