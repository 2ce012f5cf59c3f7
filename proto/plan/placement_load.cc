#include "proto/plan/placement_load.h"

#include <cstddef>
#include <iterator>
#include <limits>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "proto/plan/table_spec.h"

namespace embps::plan {
namespace {

int64_t BytesOf(const v1::TableSpec& spec, int64_t rows, int32_t columns) {
  return rows * (RowBytes(spec, columns) + StateBytesPerRow(spec, columns));
}

}  // namespace

int64_t TableBytes(const v1::TableSpec& spec) { return BytesOf(spec, spec.row_count(), spec.dim()); }

RankLoad LoadOf(const v1::TableSpec& spec, const v1::Placement& placement, const v1::Shard& shard,
                double ids_per_batch) {
  const int64_t rows = shard.row_end() - shard.row_begin();
  const int32_t columns = shard.column_end() - shard.column_begin();
  const double share = static_cast<double>(rows) / static_cast<double>(spec.row_count()) * columns / spec.dim();
  // Each copy serves the samples of its own rank.
  const bool copied = placement.sharding_type() == v1::SHARDING_TYPE_DATA_PARALLEL;
  return {BytesOf(spec, rows, columns), ids_per_batch * share / (copied ? placement.shards_size() : 1)};
}

RankLoad operator+(const RankLoad& a, const RankLoad& b) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return {a.bytes > kMax - b.bytes ? kMax : a.bytes + b.bytes, a.ids_per_batch + b.ids_per_batch};
}

void AddLoad(const v1::TableSpec& spec, const v1::Placement& placement, double ids_per_batch, const Cluster& cluster,
             std::vector<RankLoad>& loads) {
  for (const v1::Shard& shard : placement.shards()) {
    RankLoad& load = loads[cluster.GlobalRank({shard.node(), shard.rank()})];
    load = load + LoadOf(spec, placement, shard, ids_per_batch);
  }
}

std::string FormatBytes(int64_t bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, value, kUnits[unit]);
}

}  // namespace embps::plan
