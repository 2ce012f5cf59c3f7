#include "proto/wire/jagged_errors.h"

#include "absl/strings/str_cat.h"
#include "proto/base/error.h"

namespace embps::wire {
namespace {

absl::Status BadLayout(absl::string_view message) { return MakeError(Reason::kBadJaggedLayout, message); }

ErrorMetadata LabelMetadata(const FeatureLabel& label) {
  ErrorMetadata metadata = {{"table", std::string(label.table)}, {"feature", absl::StrCat(label.index)}};
  if (!label.feature.empty()) metadata.emplace_back("feature_name", std::string(label.feature));
  return metadata;
}

}  // namespace

std::string Describe(const FeatureLabel& label) {
  std::string text = absl::StrCat("feature ", label.index);
  if (!label.feature.empty()) absl::StrAppend(&text, " \"", label.feature, "\"");
  if (!label.table.empty()) absl::StrAppend(&text, " (table \"", label.table, "\")");
  return text;
}

absl::Status BadLength(const FeatureLabel& label, int64_t entry, int64_t bag, int64_t value, int64_t id_count) {
  return BadLayout(absl::StrCat("lengths: entry ", entry, ", bag ", bag, " of ", Describe(label), ", is ", value,
                                value < 0 ? "" : absl::StrCat(", but there are ", id_count, " ids in all")));
}

absl::Status BadLengthSum(int64_t sum, int64_t id_count) {
  return BadLayout(absl::StrCat("lengths: they sum to ", sum, ", but there are ", id_count, " ids"));
}

absl::Status BadBagSize(const FeatureLabel& label, int64_t entry, int64_t bag, int64_t value, int64_t length) {
  return BadLayout(absl::StrCat("bag_sizes: entry ", entry, ", bag ", bag, " of ", Describe(label), ", is ", value,
                                ", less than the ", length, " ids that came with it"));
}

absl::Status BadWeight(const FeatureLabel& label, int64_t entry, float value) {
  return BadLayout(absl::StrCat("weights: entry ", entry, ", of ", Describe(label), ", is ", value, ", not finite"));
}

absl::Status IdOutOfRange(const FeatureLabel& label, const IdFault& fault, int64_t row_count) {
  ErrorMetadata metadata = LabelMetadata(label);
  metadata.insert(metadata.end(), {{"first_bad_id", absl::StrCat(fault.first_bad_id)},
                                   {"position", absl::StrCat(fault.position)},
                                   {"count", absl::StrCat(fault.count)},
                                   {"rows", absl::StrCat(row_count)}});
  return MakeError(Reason::kIdOutOfRange,
                   absl::StrCat("ids: id ", fault.first_bad_id, " at position ", fault.position, ", of ",
                                Describe(label), ", is outside [0, ", row_count, "); bad ids in all: ", fault.count),
                   std::move(metadata));
}

absl::Status MisroutedId(const FeatureLabel& label, const IdFault& fault, int64_t row_begin, int64_t row_end) {
  return MakeError(Reason::kBadJaggedLayout,
                   absl::StrCat("ids: id ", fault.first_bad_id, " at position ", fault.position, ", of ",
                                Describe(label), ", lies on another node, this one holds rows [", row_begin, ", ",
                                row_end, "); such ids in all: ", fault.count),
                   LabelMetadata(label));
}

absl::Status NonfiniteGradient(const FeatureLabel& label, int64_t first_row, int64_t count) {
  ErrorMetadata metadata = LabelMetadata(label);
  metadata.insert(metadata.end(), {{"first_row", absl::StrCat(first_row)}, {"count", absl::StrCat(count)}});
  return MakeError(
      Reason::kNonfiniteGradient,
      absl::StrCat("grads: row ", first_row, " of ", Describe(label), " holds NaN or Inf; such rows in all: ", count),
      std::move(metadata));
}

absl::Status BadSize(absl::string_view field, int64_t sent, int64_t expected, absl::string_view unit,
                     absl::string_view why) {
  return BadLayout(absl::StrCat(field, ": ", sent, " ", unit, " given, ", expected, " expected (", why, ")"));
}

}  // namespace embps::wire
