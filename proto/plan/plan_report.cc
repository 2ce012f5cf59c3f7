// What planner.h tells a person: reasons, loads, warnings.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/plan/placement_load.h"
#include "proto/plan/planner.h"
#include "proto/plan/table_spec.h"

namespace embps::plan {

std::string Plan::Explain() const {
  std::string text;
  for (const PlacementReason& reason : reasons) absl::StrAppend(&text, reason.table, ": ", reason.text, "\n");
  for (int q = 0; q < static_cast<int>(loads.size()); ++q) {
    const RankId id = cluster.RankOf(q);
    absl::StrAppend(&text, "node ", id.node, " rank ", id.rank, ": ", FormatBytes(loads[q].bytes), ", ",
                    absl::StrFormat("%.0f ids per batch\n", loads[q].ids_per_batch));
  }
  for (const std::string& warning : warnings) absl::StrAppend(&text, "warning: ", warning, "\n");
  return text;
}

std::vector<std::string> PlacementWarnings(const v1::TableSpec& spec, const v1::Placement& placement,
                                           const PlannerOptions& options) {
  std::vector<std::string> warnings;
  const std::string table = absl::StrCat("table '", QualifiedName(spec), "': ");
  const bool columns_cut = placement.sharding_type() == v1::SHARDING_TYPE_COLUMN_WISE && placement.shards_size() > 1;
  if (columns_cut && HasRowNorm(spec.optimizer())) {
    warnings.push_back(
        absl::StrCat(table, ShortName(spec.optimizer().type()), spec.optimizer().max_norm() > 0 ? " with max_norm" : "",
                     " has a norm over the row, and its columns are cut into ", placement.shards_size(),
                     " slices: each slice keeps a norm of its own, so rows differ from those of the uncut table"));
  }
  const bool unaligned = std::ranges::any_of(
      placement.shards(), [](const v1::Shard& shard) { return shard.column_begin() % kColumnQuantum != 0; });
  if (unaligned) {
    warnings.push_back(absl::StrCat(table, "slice edges are not multiples of ", kColumnQuantum, " columns"));
  }
  if (placement.sharding_type() == v1::SHARDING_TYPE_DATA_PARALLEL && TableBytes(spec) > options.tiny_table_bytes) {
    warnings.push_back(absl::StrCat(table, placement.shards_size(), " copies of ", FormatBytes(TableBytes(spec)),
                                    "; DATA_PARALLEL is for tiny tables"));
  }
  return warnings;
}

}  // namespace embps::plan
