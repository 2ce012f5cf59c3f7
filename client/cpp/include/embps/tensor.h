// What a Lookup returns and a PushGrad takes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "embps/table.h"

namespace embps {
inline namespace sdk {

// Pooled outputs. A name is `feature`, or `feature@table` where the feature feeds several tables.
//
// Equal batch (and variable batch with inverse indices): one row-major matrix [B, stride], names in table-config order
// (table by table, each table's features as configured), name i owns the columns [offset(i), offset(i) + dims[i]).
// Variable batch without inverse indices (`variable_batch`): one block [rows[i], dims[i]] per name, names in the order
// of the caller's keys, block i begins at element offset(i).
struct KeyedTensor {
  std::vector<std::string> names{};
  std::vector<int64_t> dims{};  // [names]
  std::vector<int64_t> rows{};  // [names] B, or B_f of a variable batch
  bool variable_batch = false;
  DataType dtype = DataType::kFp32;
  int64_t element_count = 0;
  std::shared_ptr<char> data{};  // element_count elements of dtype, 64-byte aligned

  int64_t batch_size() const { return rows.empty() ? 0 : rows[0]; }
  int64_t stride() const;              // sum of dims
  int64_t offset(size_t index) const;  // of name `index`, in elements
  // -1 when there is none.
  int Find(absl::string_view name) const;
  // Only for kFp32.
  absl::Span<const float> values() const;
  // Row `row` of name `index`, kFp32 only.
  absl::Span<const float> row(size_t index, int64_t row) const;
};

// One feature of a table with Pooling::kNone: a row for each of its ids, in the caller's order. With DROP an id outside
// the table has a zero row.
struct SequenceTensor {
  std::string name{};  // as in KeyedTensor
  int64_t dim = 0;
  DataType dtype = DataType::kFp32;
  std::vector<int64_t> lengths{};  // [B], with inverse indices expanded to the samples
  int64_t row_count = 0;           // sum of lengths
  std::shared_ptr<char> data{};    // [row_count, dim]

  absl::Span<const float> values() const;  // only for kFp32
};

// Gradients in the layout of the LookupResult of the same KeyedJaggedTensor; a view.
struct Gradients {
  DataType dtype = DataType::kFp32;
  const void* pooled = nullptr;  // as KeyedTensor::data
  int64_t pooled_count = 0;      // elements, to be checked against what the lookup returned
  struct Block {
    const void* data = nullptr;
    int64_t count = 0;  // elements
  };
  std::vector<Block> sequences{};  // one per SequenceTensor, in their order

  static Gradients Pooled(absl::Span<const float> pooled);
  static Gradients Of(absl::Span<const float> pooled, const std::vector<absl::Span<const float>>& sequences);
};

}  // namespace sdk
}  // namespace embps
