#include "embps/kjt.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/kjt_check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/jagged_check.h"

namespace embps {
namespace client {
namespace {

absl::Status CheckStrides(const KjtView& kjt) {
  const size_t features = kjt.keys.size();
  if (kjt.stride_per_key.empty()) {
    if (features == 0 ? kjt.lengths.empty() : kjt.lengths.size() % features == 0) return absl::OkStatus();
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("lengths: ", kjt.lengths.size(), " entries for ", features,
                                                            " keys, must be a multiple"));
  }
  if (kjt.stride_per_key.size() != features) {
    return MakeError(Reason::kBadJaggedLayout,
                     absl::StrCat("stride_per_key: ", kjt.stride_per_key.size(), " entries for ", features, " keys"));
  }
  for (size_t f = 0; f < features; ++f) {
    if (kjt.stride_per_key[f] >= 0) continue;
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("stride_per_key: feature ", f, " \"", kjt.keys[f],
                                                            "\": ", kjt.stride_per_key[f], ", must be >= 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckInverse(const KjtView& kjt) {
  if (kjt.inverse_indices.empty()) return absl::OkStatus();
  if (kjt.inverse_indices.size() != kjt.keys.size()) {
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("inverse_indices: ", kjt.inverse_indices.size(),
                                                            " lists for ", kjt.keys.size(), " keys"));
  }
  for (size_t f = 0; f < kjt.keys.size(); ++f) {
    const std::vector<int64_t>& inverse = kjt.inverse_indices[f];
    const int64_t slots = kjt.stride(static_cast<int64_t>(f));
    if (inverse.size() != kjt.inverse_indices[0].size()) {
      return MakeError(Reason::kBadJaggedLayout,
                       absl::StrCat("inverse_indices: feature ", f, " \"", kjt.keys[f], "\" has ", inverse.size(),
                                    " samples, feature 0 has ", kjt.inverse_indices[0].size()));
    }
    for (size_t b = 0; b < inverse.size(); ++b) {
      if (inverse[b] >= 0 && inverse[b] < slots) continue;
      return MakeError(Reason::kBadJaggedLayout,
                       absl::StrCat("inverse_indices: feature ", f, " \"", kjt.keys[f], "\" position ", b, ": ",
                                    inverse[b], ", must be in [0, ", slots, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKjt(const KjtView& kjt, std::vector<int64_t>* id_begins) {
  if (!kjt.values.empty() && !kjt.values32.empty()) {
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("values: ", kjt.values.size(), " entries and values32: ",
                                                            kjt.values32.size(), ", only one may be filled"));
  }
  EMBPS_RETURN_IF_ERROR(CheckStrides(kjt));
  std::vector<absl::string_view> keys(kjt.keys.begin(), kjt.keys.end());
  std::vector<int64_t> bag_counts(kjt.keys.size());
  for (size_t f = 0; f < keys.size(); ++f) bag_counts[f] = kjt.stride(static_cast<int64_t>(f));
  wire::JaggedInput input;
  input.keys = keys;
  input.bag_counts = bag_counts;
  input.lengths = kjt.lengths;
  input.id_count = kjt.id_count();
  input.weighted = kjt.weighted;
  input.weights = kjt.weights;
  EMBPS_RETURN_IF_ERROR(wire::ValidateJagged(input, id_begins));
  return CheckInverse(kjt);
}

}  // namespace client

inline namespace sdk {

KjtView::KjtView(const KeyedJaggedTensor& kjt)
    : keys(kjt.keys),
      lengths(kjt.lengths),
      values(kjt.values),
      values32(kjt.values32),
      weights(kjt.weights),
      weighted(kjt.weighted),
      stride_per_key(kjt.stride_per_key),
      inverse_indices(kjt.inverse_indices) {}

absl::Status KjtView::Validate() const {
  std::vector<int64_t> id_begins;
  return client::CheckKjt(*this, &id_begins);
}

absl::Status KeyedJaggedTensor::Validate() const { return KjtView(*this).Validate(); }

}  // namespace sdk
}  // namespace embps
