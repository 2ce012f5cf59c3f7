// The rules of a KJT that need no table.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "embps/kjt.h"

namespace embps::client {

// On success id_begins has F + 1 entries: where the ids of each feature begin.
absl::Status CheckKjt(const KjtView& kjt, std::vector<int64_t>* id_begins);

}  // namespace embps::client
