// Bulk of ReadRows and WriteRows: ids and fp32 rows between bytes and arrays.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/wire/batch_layout.h"
#include "proto/wire/bulk_message.h"

namespace embps::wire {

// int64 [N] global rows, each in [0, R) and of this node's rows. ID_OUT_OF_RANGE, BAD_JAGGED_LAYOUT. distinct: a
// repeated id is BAD_JAGGED_LAYOUT naming it.
absl::StatusOr<std::vector<int64_t>> DecodeRowIds(const TableInfo& table, absl::string_view bytes, int64_t max_ids,
                                                  bool distinct);

// fp32 [rows, width], finite. BAD_JAGGED_LAYOUT naming `field` with both sizes or the first bad position.
absl::StatusOr<std::vector<float>> DecodeRowValues(absl::string_view field, absl::string_view bytes, int64_t rows,
                                                   int64_t width);

// The bytes of an array, as a bulk field of a generated message.
template <class T>
absl::string_view ArrayBytes(const T* data, int64_t count) {
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(count) * sizeof(T)};
}

}  // namespace embps::wire
