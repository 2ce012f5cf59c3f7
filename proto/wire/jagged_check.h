// The client's validation of a whole KJT before it is split, with the error texts of the server's decoder; and what
// DROP does to a feature. Letters as in numerics: B bags of a feature, L ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "embps/v1/types.pb.h"

namespace embps::wire {

// Ids in the caller's memory, int32 or int64.
struct IdView {
  const void* data = nullptr;
  int64_t count = 0;
  int32_t id_bytes = 8;  // 4 or 8

  int64_t at(int64_t i) const {
    return id_bytes == 8 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
  IdView subview(int64_t begin, int64_t n) const {
    return {static_cast<const char*>(data) + begin * id_bytes, n, id_bytes};
  }
};

// Gradient rows in the caller's memory: row r starts at data + r * row_stride elements and is `dim` elements wide.
struct GradView {
  const void* data = nullptr;
  v1::DataType type = v1::DATA_TYPE_FP32;
  int64_t row_count = 0;
  int32_t dim = 0;
  int64_t row_stride = 0;  // elements, >= dim
};

// How errors call a feature: `feature 2 "user" (table "default/users")`; empty names are left out.
struct FeatureLabel {
  int64_t index = 0;
  absl::string_view feature;
  absl::string_view table;
};

// A whole key-major KJT.
struct JaggedInput {
  absl::Span<const absl::string_view> keys;  // [F], distinct, for errors
  absl::Span<const int64_t> bag_counts;      // [F] B_f
  absl::Span<const int64_t> lengths;         // [sum B_f]
  int64_t id_count = 0;                      // number of values
  bool weighted = false;
  absl::Span<const float> weights;  // [id_count] if weighted
};

// Keys distinct and as many as bag_counts; number of lengths; lengths >= 0; their sum = id_count, in 64 bit against
// overflow; weights count and finiteness. BAD_JAGGED_LAYOUT naming the field, the feature and the first bad position,
// with both sizes. On success *id_begins (if not null) has F + 1 entries: where each feature's ids begin.
absl::Status ValidateJagged(const JaggedInput& input, std::vector<int64_t>* id_begins);

// All ids in [0, rows), else ID_OUT_OF_RANGE as the server says it; `position_base` is the position of ids[0] in the
// caller's values.
absl::Status ValidateIds(const FeatureLabel& label, const IdView& ids, int64_t position_base, int64_t rows);

struct IdCounts {
  int64_t dropped = 0;  // outside [0, rows), other than -1
  int64_t pruned = 0;   // equal to -1
};
// DROP: out[i] = ids[i] if 0 <= ids[i] < rows, else -1.
IdCounts MarkOutOfRange(const IdView& ids, int64_t rows, int64_t* out);

// Takes the -1 marks out of pooled bags, in place: lengths [B] shrink, ids and weights (may be null) move up. Returns
// the number of ids left.
int64_t RemoveMarked(absl::Span<int64_t> lengths, int64_t* ids, float* weights);

// No NaN or Inf in the gradient, else NONFINITE_GRADIENT as the server says it.
absl::Status ValidateGradients(const FeatureLabel& label, const GradView& grads);

}  // namespace embps::wire
