// Ids of a batch as local rows of the one shard that holds all of this node's rows of the table: what a node with one
// rank looks up without any exchange.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "proto/wire/batch_decoder.h"
#include "proto/wire/batch_layout.h"

namespace embps {

class LocalIds {
 public:
  // Views of the batch where the node's rows begin at 0, else a copy with the first row subtracted (-1 marks stay).
  static absl::StatusOr<LocalIds> Create(const wire::DecodedBatch& batch, const wire::AllocateFn& allocate);

  const int64_t* of(int32_t table) const { return ids_[static_cast<size_t>(table)]; }  // [N]

 private:
  std::vector<const int64_t*> ids_;  // [T]
  std::vector<std::shared_ptr<void>> copies_;
};

}  // namespace embps
