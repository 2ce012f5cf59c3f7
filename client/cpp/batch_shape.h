// What a batch asks for: the (feature, table) pairs with their places in the caller's arrays and in the result.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/catalog.h"
#include "embps/kjt.h"
#include "embps/tensor.h"

namespace embps::client {

// One pair. Letters: B_f bags of the feature, B rows of the result (B_f unless inverse indices expand it).
struct BatchOutput {
  int64_t feature = 0;  // in the KJT
  std::shared_ptr<const AttachedTable> table;
  int64_t bag_begin = 0, bag_count = 0;  // in the KJT's lengths; B_f
  int64_t id_begin = 0, id_count = 0;    // in the KJT's values
  // Pooled: element of its first row in the pooled values, and elements from row to row.
  int64_t first_element = 0;
  int64_t row_step = 0;
  int sequence = -1;  // index of its SequenceTensor, -1 = pooled

  bool pooled() const { return sequence < 0; }
  int32_t dim() const { return table->layout.dim(); }
};

struct BatchShape {
  std::shared_ptr<const Catalog> catalog;
  // In the order of the wire: by KJT key, then by table.
  std::vector<BatchOutput> outputs;
  bool expanded = false;                  // inverse indices are there
  int64_t row_count = 0;                  // B where the pooled result is one matrix
  KeyedTensor pooled;                     // names, dims, rows, element_count; no data
  std::vector<SequenceTensor> sequences;  // name, dim, lengths, row_count; no data
};

// Validates the KJT against its own rules and the catalog's features.
absl::StatusOr<BatchShape> ShapeBatch(std::shared_ptr<const Catalog> catalog, const KjtView& kjt);

}  // namespace embps::client
