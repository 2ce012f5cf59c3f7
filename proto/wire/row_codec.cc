#include "proto/wire/row_codec.h"

#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/checked_copy.h"
#include "proto/wire/jagged_errors.h"

namespace embps::wire {
namespace {

absl::Status BadRowId(const TableInfo& table, const std::vector<int64_t>& ids) {
  IdFault bad, stray;
  const auto note = [](IdFault* fault, int64_t id, size_t position) {
    if (fault->count++ > 0) return;
    fault->first_bad_id = id;
    fault->position = static_cast<int64_t>(position);
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= table.row_count) {
      note(&bad, ids[i], i);
    } else if (ids[i] < table.row_begin || ids[i] >= table.row_end) {
      note(&stray, ids[i], i);
    }
  }
  const FeatureLabel label = {0, "", table.name};
  return bad.count > 0 ? IdOutOfRange(label, bad, table.row_count)
                       : MisroutedId(label, stray, table.row_begin, table.row_end);
}

absl::Status CheckDistinct(const std::vector<int64_t>& ids) {
  absl::flat_hash_set<int64_t> seen;
  seen.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (seen.insert(ids[i]).second) continue;
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("ids: id ", ids[i], " at position ", i, " occurs before"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> DecodeRowIds(const TableInfo& table, absl::string_view bytes, int64_t max_ids,
                                                  bool distinct) {
  const size_t count = bytes.size() / sizeof(int64_t);
  if (bytes.size() % sizeof(int64_t) != 0) {
    return MakeError(Reason::kBadJaggedLayout,
                     absl::StrCat("ids: ", bytes.size(), " bytes are no whole number of int64"));
  }
  if (count > static_cast<size_t>(max_ids)) {
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("ids: ", count, " entries, the limit is ", max_ids));
  }
  std::vector<int64_t> ids(count);
  if (!CopyIds64(bytes.data(), count, table.row_begin, table.row_end - table.row_begin, ids.data())) {
    return BadRowId(table, ids);
  }
  if (distinct) EMBPS_RETURN_IF_ERROR(CheckDistinct(ids));
  return ids;
}

absl::StatusOr<std::vector<float>> DecodeRowValues(absl::string_view field, absl::string_view bytes, int64_t rows,
                                                   int64_t width) {
  const int64_t count = rows * width;
  if (bytes.size() != static_cast<size_t>(count) * sizeof(float)) {
    return BadSize(field, static_cast<int64_t>(bytes.size()), count * 4, "bytes",
                   absl::StrCat("fp32 [", rows, ", ", width, "]"));
  }
  std::vector<float> values(static_cast<size_t>(count));
  if (CopyFinite(bytes.data(), values.size(), v1::DATA_TYPE_FP32, false, values.data())) return values;
  size_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return MakeError(Reason::kBadJaggedLayout, absl::StrCat(field, ": row ", static_cast<int64_t>(i) / width, ", column ",
                                                          static_cast<int64_t>(i) % width, " is not finite"));
}

}  // namespace embps::wire
