#include "embps/tensor.h"

#include <numeric>

#include "proto/base/check.h"

namespace embps {
inline namespace sdk {
namespace {

absl::Span<const float> Floats(const std::shared_ptr<char>& data, DataType dtype, int64_t count) {
  EMBPS_CHECK(dtype == DataType::kFp32);
  return {reinterpret_cast<const float*>(data.get()), static_cast<size_t>(count)};
}

}  // namespace

int64_t KeyedTensor::stride() const { return std::accumulate(dims.begin(), dims.end(), int64_t{0}); }

int64_t KeyedTensor::offset(size_t index) const {
  int64_t offset = 0;
  for (size_t i = 0; i < index; ++i) offset += variable_batch ? rows[i] * dims[i] : dims[i];
  return offset;
}

int KeyedTensor::Find(absl::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

absl::Span<const float> KeyedTensor::values() const { return Floats(data, dtype, element_count); }

absl::Span<const float> KeyedTensor::row(size_t index, int64_t row) const {
  EMBPS_CHECK(index < names.size() && row >= 0 && row < rows[index]);
  const int64_t step = variable_batch ? dims[index] : stride();
  return values().subspan(static_cast<size_t>(offset(index) + row * step), static_cast<size_t>(dims[index]));
}

absl::Span<const float> SequenceTensor::values() const { return Floats(data, dtype, row_count * dim); }

Gradients Gradients::Pooled(absl::Span<const float> pooled) { return Of(pooled, {}); }

Gradients Gradients::Of(absl::Span<const float> pooled, const std::vector<absl::Span<const float>>& sequences) {
  Gradients gradients;
  gradients.pooled = pooled.data();
  gradients.pooled_count = static_cast<int64_t>(pooled.size());
  for (absl::Span<const float> block : sequences) {
    gradients.sequences.push_back({block.data(), static_cast<int64_t>(block.size())});
  }
  return gradients;
}

}  // namespace sdk
}  // namespace embps
