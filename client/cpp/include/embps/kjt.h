// KeyedJaggedTensor: the ids of a batch, per feature and sample. Key-major: bag (f, b) is slot f * B + b, slots of
// feature 0 first. Letters: F features, B samples, N ids.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace embps {
inline namespace sdk {

// Owns its arrays.
struct KeyedJaggedTensor {
  std::vector<std::string> keys{};  // F distinct feature names, each <= 128 bytes
  std::vector<int64_t> lengths{};   // [sum of B_f] ids of each slot, >= 0
  std::vector<int64_t> values{};    // [N] ids of all slots in slot order; empty if values32 is used
  std::vector<int32_t> values32{};  // [N] the same as int32; at most one of the two is filled
  std::vector<float> weights{};     // [N] finite, used if `weighted`
  bool weighted = false;
  std::vector<int64_t> stride_per_key{};  // [F] B_f, for a variable batch; empty = lengths.size() / F each
  std::vector<std::vector<int64_t>> inverse_indices{};  // [F][B] sample -> slot of the feature; empty = none

  // Shape rules alone: unique keys, lengths >= 0, their sum = N in 64 bits without overflow, weights as many and
  // finite, strides and inverse indices in range. INVALID_ARGUMENT BAD_JAGGED_LAYOUT names field, feature, first bad
  // position.
  absl::Status Validate() const;
};

// The same over somebody else's arrays, which must outlive the call it is given to (for an asynchronous call: its
// callback).
struct KjtView {
  KjtView() = default;
  KjtView(const KeyedJaggedTensor& kjt);  // NOLINT(google-explicit-constructor): a view, as span of vector

  absl::Span<const std::string> keys{};
  absl::Span<const int64_t> lengths{};
  absl::Span<const int64_t> values{};
  absl::Span<const int32_t> values32{};
  absl::Span<const float> weights{};
  bool weighted = false;
  absl::Span<const int64_t> stride_per_key{};
  absl::Span<const std::vector<int64_t>> inverse_indices{};

  int64_t id_count() const { return static_cast<int64_t>(values32.empty() ? values.size() : values32.size()); }
  // B_f. Only for a valid view.
  int64_t stride(int64_t feature) const {
    return stride_per_key.empty() ? static_cast<int64_t>(lengths.size() / keys.size()) : stride_per_key[feature];
  }
  absl::Status Validate() const;
};

}  // namespace sdk
}  // namespace embps
