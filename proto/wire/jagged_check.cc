#include "proto/wire/jagged_check.h"

#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/checked_copy.h"
#include "proto/wire/jagged_errors.h"
#include "proto/wire/request_checks.h"

namespace embps::wire {
namespace {

FeatureLabel LabelOf(const JaggedInput& input, size_t feature) {
  return {static_cast<int64_t>(feature), input.keys[feature], ""};
}

absl::Status CheckShape(const JaggedInput& input) {
  if (input.keys.size() != input.bag_counts.size()) {
    return BadSize("keys", static_cast<int64_t>(input.keys.size()), static_cast<int64_t>(input.bag_counts.size()),
                   "keys", "one per feature");
  }
  absl::flat_hash_set<absl::string_view> seen;
  int64_t bags = 0;
  for (size_t f = 0; f < input.keys.size(); ++f) {
    if (!seen.insert(input.keys[f]).second) {
      return MakeError(Reason::kBadJaggedLayout, absl::StrCat("keys: \"", input.keys[f], "\" occurs twice"));
    }
    if (input.bag_counts[f] < 0 || input.bag_counts[f] > UINT32_MAX) {
      return MakeError(Reason::kBadJaggedLayout, absl::StrCat("batch size of ", Describe(LabelOf(input, f)), ": ",
                                                              input.bag_counts[f], " is not in [0, 2^32)"));
    }
    bags += input.bag_counts[f];
  }
  if (static_cast<int64_t>(input.lengths.size()) != bags) {
    return BadSize("lengths", static_cast<int64_t>(input.lengths.size()), bags, "entries", "sum of the batch sizes");
  }
  if (!input.weighted || static_cast<int64_t>(input.weights.size()) == input.id_count) return absl::OkStatus();
  return BadSize("weights", static_cast<int64_t>(input.weights.size()), input.id_count, "entries", "one per id");
}

absl::Status CheckWeights(const JaggedInput& input, const std::vector<int64_t>& id_begins) {
  if (!input.weighted) return absl::OkStatus();
  const auto* bytes = reinterpret_cast<const char*>(input.weights.data());
  if (AllFinite(bytes, input.weights.size(), v1::DATA_TYPE_FP32)) return absl::OkStatus();
  size_t feature = 0;
  for (size_t i = 0; i < input.weights.size(); ++i) {
    while (static_cast<int64_t>(i) >= id_begins[feature + 1]) ++feature;
    if (std::isfinite(input.weights[i])) continue;
    return BadWeight(LabelOf(input, feature), static_cast<int64_t>(i), input.weights[i]);
  }
  return absl::InternalError("a weight that is not finite was seen and then not found");
}

bool RowIsFinite(const GradView& grads, int64_t row) {
  const int64_t row_bytes = grads.row_stride * DataTypeBytes(grads.type);
  return AllFinite(static_cast<const char*>(grads.data) + row * row_bytes, static_cast<size_t>(grads.dim), grads.type);
}

}  // namespace

absl::Status ValidateJagged(const JaggedInput& input, std::vector<int64_t>* id_begins) {
  EMBPS_RETURN_IF_ERROR(CheckShape(input));
  std::vector<int64_t> begins = {0};
  int64_t entry = 0;
  uint64_t sum = 0;  // of at most entry values <= id_count each, checked as it grows
  for (size_t f = 0; f < input.keys.size(); ++f) {
    for (int64_t bag = 0; bag < input.bag_counts[f]; ++bag, ++entry) {
      const int64_t length = input.lengths[static_cast<size_t>(entry)];
      if (length < 0 || length > input.id_count) {
        return BadLength(LabelOf(input, f), entry, bag, length, input.id_count);
      }
      sum += static_cast<uint64_t>(length);
      if (sum > uint64_t{1} << 62) return BadLengthSum(static_cast<int64_t>(sum), input.id_count);
    }
    begins.push_back(static_cast<int64_t>(sum));
  }
  if (static_cast<int64_t>(sum) != input.id_count) return BadLengthSum(static_cast<int64_t>(sum), input.id_count);
  EMBPS_RETURN_IF_ERROR(CheckWeights(input, begins));
  if (id_begins != nullptr) *id_begins = std::move(begins);
  return absl::OkStatus();
}

absl::Status ValidateIds(const FeatureLabel& label, const IdView& ids, int64_t position_base, int64_t rows) {
  const auto* bytes = static_cast<const char*>(ids.data);
  if (AllIdsInRange(bytes, static_cast<size_t>(ids.count), ids.id_bytes, rows)) return absl::OkStatus();
  IdFault fault;
  for (int64_t i = 0; i < ids.count; ++i) {
    const int64_t id = ids.at(i);
    if (id >= 0 && id < rows) continue;
    if (fault.count++ > 0) continue;
    fault.first_bad_id = id;
    fault.position = position_base + i;
  }
  return IdOutOfRange(label, fault, rows);
}

IdCounts MarkOutOfRange(const IdView& ids, int64_t rows, int64_t* out) {
  const auto* bytes = static_cast<const char*>(ids.data);
  const auto count = static_cast<size_t>(ids.count);
  IdCounts counts;
  if (ids.id_bytes == 8 ? CopyIds64(bytes, count, 0, rows, out) : CopyIds32(bytes, count, 0, rows, out)) return counts;
  for (int64_t i = 0; i < ids.count; ++i) {
    if (out[i] >= 0 && out[i] < rows) continue;
    ++(out[i] == -1 ? counts.pruned : counts.dropped);
    out[i] = -1;
  }
  return counts;
}

int64_t RemoveMarked(absl::Span<int64_t> lengths, int64_t* ids, float* weights) {
  int64_t read = 0, write = 0;
  for (int64_t& length : lengths) {
    const int64_t end = read + length, begin = write;
    for (; read < end; ++read) {
      if (ids[read] == -1) continue;
      ids[write] = ids[read];
      if (weights != nullptr) weights[write] = weights[read];
      ++write;
    }
    length = write - begin;
  }
  return write;
}

absl::Status ValidateGradients(const FeatureLabel& label, const GradView& grads) {
  const auto* bytes = static_cast<const char*>(grads.data);
  const bool dense = grads.row_stride == grads.dim;
  if (dense && AllFinite(bytes, static_cast<size_t>(grads.row_count * grads.dim), grads.type)) return absl::OkStatus();
  int64_t count = 0, first_row = 0;
  for (int64_t row = 0; row < grads.row_count; ++row) {
    if (!RowIsFinite(grads, row) && count++ == 0) first_row = row;
  }
  return count == 0 ? absl::OkStatus() : NonfiniteGradient(label, first_row, count);
}

}  // namespace embps::wire
