#include "proto/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/placement_load.h"
#include "proto/plan/table_spec.h"

namespace embps::plan {
namespace {

std::string FormatIds(double ids) { return absl::StrFormat("%.0f ids per batch", ids); }

// What the request fixes must exist and mean something for its type.
absl::Status CheckChoices(const TableRequest& request, const Cluster& cluster) {
  const v1::ShardingType type = request.spec.sharding_type();
  const auto refuse = [&](absl::string_view what) {
    return MakeError(Reason::kMalformed, absl::StrCat("table '", QualifiedName(request.spec), "': ", what));
  };
  const bool takes_node = type != v1::SHARDING_TYPE_UNSPECIFIED && type != v1::SHARDING_TYPE_ROW_WISE;
  if (request.node >= 0 && !takes_node) {
    return refuse(absl::StrCat("a node cannot be chosen for sharding_type ", ShortName(type)));
  }
  if (request.rank >= 0 && (type != v1::SHARDING_TYPE_TABLE_WISE || request.node < 0)) {
    return refuse("a rank can be chosen for TABLE_WISE only, together with its node");
  }
  if (request.column_slices != 0 && type != v1::SHARDING_TYPE_COLUMN_WISE) {
    return refuse("column_slices can be chosen for COLUMN_WISE only");
  }
  if (request.node >= 0 && !cluster.Contains({request.node, std::max(0, request.rank)})) {
    return refuse(absl::StrCat("the cluster has no node ", request.node,
                               request.rank >= 0 ? absl::StrCat(" with rank ", request.rank) : ""));
  }
  return absl::OkStatus();
}

absl::Status CheckRequests(absl::Span<const TableRequest> requests, const Cluster& cluster) {
  std::set<std::string> names;
  for (const TableRequest& request : requests) {
    EMBPS_RETURN_IF_ERROR(ValidateTableSpec(request.spec));
    const std::string name = QualifiedName(request.spec);
    if (!names.insert(name).second) {
      return MakeError(Reason::kMalformed, absl::StrCat("table '", name, "' is asked for twice"));
    }
    if (!std::isfinite(request.ids_per_batch) || request.ids_per_batch < 0) {
      return MakeError(Reason::kMalformed, absl::StrCat("table '", name, "': ids_per_batch ", request.ids_per_batch,
                                                        ", must be finite and >= 0"));
    }
    EMBPS_RETURN_IF_ERROR(CheckChoices(request, cluster));
  }
  return absl::OkStatus();
}

std::string DescribeHomes(const v1::Placement& placement) {
  const v1::Shard& first = placement.shards(0);
  switch (placement.sharding_type()) {
    case v1::SHARDING_TYPE_TABLE_WISE:
      return absl::StrCat("on node ", first.node(), " rank ", first.rank());
    case v1::SHARDING_TYPE_ROW_WISE:
      return absl::StrCat("over all ", placement.shards_size(), " ranks");
    case v1::SHARDING_TYPE_COLUMN_WISE:
      return absl::StrCat("in ", placement.shards_size(), " slices, ",
                          absl::StrJoin(placement.shards(), ", ", [](std::string* out, const v1::Shard& shard) {
                            absl::StrAppend(out, "columns [", shard.column_begin(), ", ", shard.column_end(),
                                            ") on node ", shard.node(), " rank ", shard.rank());
                          }));
    default:
      return absl::StrCat("over the ", placement.shards_size(), " ranks of node ", first.node());
  }
}

// Places the tables one by one on a growing picture of what each rank holds.
class Planner {
 public:
  Planner(absl::Span<const TableRequest> requests, const Cluster& cluster, absl::Span<const RankLoad> current,
          const PlannerOptions& options)
      : requests_(requests), cluster_(cluster), options_(options), loads_(current.begin(), current.end()) {
    loads_.resize(cluster.rank_count());
    for (const RankLoad& load : loads_) Count(load.bytes, load.ids_per_batch);
    for (const TableRequest& request : requests_) Count(TableBytes(request.spec), request.ids_per_batch);
  }

  absl::StatusOr<Plan> Run() {
    Plan plan;
    plan.cluster = cluster_;
    plan.placements.resize(requests_.size());
    plan.reasons.resize(requests_.size());
    for (const size_t index : PlacingOrder()) {
      const TableRequest& request = requests_[index];
      std::string why;
      EMBPS_ASSIGN_OR_RETURN(plan.placements[index], Place(request, why));
      const v1::Placement& placement = plan.placements[index];
      AddLoad(request.spec, placement, request.ids_per_batch, cluster_, loads_);
      plan.reasons[index] = {QualifiedName(request.spec), absl::StrCat(ShortName(placement.sharding_type()), " ",
                                                                       DescribeHomes(placement), ": ", why)};
    }
    for (size_t i = 0; i < requests_.size(); ++i) {
      for (std::string& warning : PlacementWarnings(requests_[i].spec, plan.placements[i], options_)) {
        plan.warnings.push_back(std::move(warning));
      }
    }
    plan.loads = std::move(loads_);
    return plan;
  }

 private:
  // Lower is better: the larger of a rank's two shares, then their sum.
  using Score = std::pair<double, double>;

  void Count(int64_t bytes, double ids) {
    total_bytes_ += static_cast<double>(bytes);
    total_ids_ += ids;
  }

  Score ScoreOf(double bytes, double ids) const {
    const double byte_share = total_bytes_ > 0 ? bytes / total_bytes_ : 0;
    const double id_share = total_ids_ > 0 ? ids / total_ids_ : 0;
    return {std::max(byte_share, id_share), byte_share + id_share};
  }

  // What is bound goes first, so that the rest can even it out; then the largest; then by name.
  std::vector<size_t> PlacingOrder() const {
    std::vector<size_t> order(requests_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto key = [this](size_t index) {
      const TableRequest& request = requests_[index];
      const Score size = ScoreOf(static_cast<double>(TableBytes(request.spec)), request.ids_per_batch);
      return std::make_tuple(request.node < 0, -size.first, -size.second, QualifiedName(request.spec));
    };
    std::ranges::sort(order, {}, key);
    return order;
  }

  absl::StatusOr<v1::Placement> Place(const TableRequest& request, std::string& why) const {
    const v1::ShardingType asked = request.spec.sharding_type();
    if (asked != v1::SHARDING_TYPE_UNSPECIFIED) {
      EMBPS_ASSIGN_OR_RETURN(std::optional<v1::Placement> placement, BestOf(request, asked));
      if (!placement.has_value()) return MemoryFull(request.spec);
      why = request.node >= 0 ? "as asked" : "type as asked, homes by load";
      return *std::move(placement);
    }
    return PlaceAuto(request, why);
  }

  absl::StatusOr<v1::Placement> PlaceAuto(const TableRequest& request, std::string& why) const {
    const v1::TableSpec& spec = request.spec;
    const int ranks = cluster_.rank_count();
    const double fair_bytes = std::max(static_cast<double>(options_.split_min_bytes), total_bytes_ / ranks);
    const double fair_ids = std::max(options_.split_min_ids, total_ids_ / ranks);
    const bool too_big = ranks > 1 && static_cast<double>(TableBytes(spec)) > fair_bytes;
    const bool too_hot = ranks > 1 && request.ids_per_batch > fair_ids;
    const bool rows_to_cut = spec.row_count() / ranks >= options_.split_min_rows_per_rank;
    const bool columns_to_cut = !HasRowNorm(spec.optimizer()) && spec.dim() >= 2 * kColumnQuantum;

    // In order of preference; whatever else is legal follows for tables that fit in no other way.
    std::vector<v1::ShardingType> types;
    if ((too_big || too_hot) && rows_to_cut) types.push_back(v1::SHARDING_TYPE_ROW_WISE);
    if ((too_big || too_hot) && !rows_to_cut && columns_to_cut) types.push_back(v1::SHARDING_TYPE_COLUMN_WISE);
    const bool split_wanted = !types.empty();
    types.insert(types.end(),
                 {v1::SHARDING_TYPE_TABLE_WISE, v1::SHARDING_TYPE_ROW_WISE, v1::SHARDING_TYPE_TABLE_ROW_WISE});
    if (columns_to_cut) types.push_back(v1::SHARDING_TYPE_COLUMN_WISE);

    for (size_t i = 0; i < types.size(); ++i) {
      EMBPS_ASSIGN_OR_RETURN(std::optional<v1::Placement> placement, BestOf(request, types[i]));
      if (!placement.has_value()) continue;
      const std::string size = absl::StrCat(FormatBytes(TableBytes(spec)), ", ", FormatIds(request.ids_per_batch));
      if (i > 0) {
        why = absl::StrCat("it fits in no better way (", size, ")");
      } else if (split_wanted) {
        why = absl::StrCat(too_big ? "too big" : "too hot", " for one rank (", size, "; fair share ",
                           too_big ? FormatBytes(static_cast<int64_t>(fair_bytes)) : FormatIds(fair_ids), ")");
      } else {
        why = absl::StrCat("least loaded rank (", size, ")");
      }
      return *std::move(placement);
    }
    return MemoryFull(spec);
  }

  // The placement of this type after which the fullest rank it touches is least full; none if it fits nowhere.
  absl::StatusOr<std::optional<v1::Placement>> BestOf(const TableRequest& request, v1::ShardingType type) const {
    std::optional<v1::Placement> best;
    Score best_score;
    for (const PlacementOptions& choice : Choices(request, type)) {
      EMBPS_ASSIGN_OR_RETURN(v1::Placement placement, MakePlacement(request.spec, type, cluster_, choice));
      const std::optional<Score> score = Worst(request, placement);
      if (!score.has_value() || (best.has_value() && best_score <= *score)) continue;
      best = std::move(placement);
      best_score = *score;
    }
    return best;
  }

  // Global ranks on which the request may lie.
  std::vector<int> LegalRanks(const TableRequest& request) const {
    std::vector<int> ranks;
    for (int q = 0; q < cluster_.rank_count(); ++q) {
      const RankId id = cluster_.RankOf(q);
      const bool legal = (request.node < 0 || id.node == request.node) && (request.rank < 0 || id.rank == request.rank);
      if (legal) ranks.push_back(q);
    }
    return ranks;
  }

  std::vector<PlacementOptions> Choices(const TableRequest& request, v1::ShardingType type) const {
    if (type == v1::SHARDING_TYPE_ROW_WISE) return {PlacementOptions{}};
    if (type == v1::SHARDING_TYPE_COLUMN_WISE) return {SliceHomes(request)};
    std::vector<PlacementOptions> choices;
    for (const int q : LegalRanks(request)) {
      const RankId id = cluster_.RankOf(q);
      // TABLE_ROW_WISE and DATA_PARALLEL take whole nodes.
      if (type != v1::SHARDING_TYPE_TABLE_WISE && id.rank != 0) continue;
      choices.push_back({id.node, id.rank, 0, {}});
    }
    return choices;
  }

  // One rank after the other, least loaded first, around again when there are more slices than ranks.
  PlacementOptions SliceHomes(const TableRequest& request) const {
    std::vector<int> ranks = LegalRanks(request);
    std::ranges::stable_sort(
        ranks, {}, [this](int q) { return ScoreOf(static_cast<double>(loads_[q].bytes), loads_[q].ids_per_batch); });
    const int rank_count = static_cast<int>(ranks.size());
    PlacementOptions options;
    options.column_slices =
        request.column_slices != 0 ? request.column_slices : DefaultColumnSlices(request.spec.dim(), rank_count);
    for (int i = 0; i < std::min(options.column_slices, request.spec.dim()); ++i) {
      options.slice_homes.push_back(cluster_.RankOf(ranks[i % rank_count]));
    }
    return options;
  }

  // Score of the fullest rank that the placement touches; none if a rank would hold more than it may.
  std::optional<Score> Worst(const TableRequest& request, const v1::Placement& placement) const {
    std::map<int, RankLoad> after;  // touched ranks only
    for (const v1::Shard& shard : placement.shards()) {
      const int q = cluster_.GlobalRank({shard.node(), shard.rank()});
      RankLoad& load = after.try_emplace(q, loads_[q]).first->second;
      load = load + LoadOf(request.spec, placement, shard, request.ids_per_batch);
    }
    Score worst{0, 0};
    for (const auto& [q, load] : after) {
      const bool grew = load.bytes > loads_[q].bytes;
      if (grew && options_.rank_memory_bytes > 0 && load.bytes > options_.rank_memory_bytes) return std::nullopt;
      worst = std::max(worst, ScoreOf(static_cast<double>(load.bytes), load.ids_per_batch));
    }
    return worst;
  }

  absl::Status MemoryFull(const v1::TableSpec& spec) const {
    const auto emptiest = std::ranges::min_element(loads_, {}, &RankLoad::bytes);
    return MakeError(Reason::kMemoryFull,
                     absl::StrCat("table '", QualifiedName(spec), "' of ", FormatBytes(TableBytes(spec)),
                                  " fits on no rank: limit ", FormatBytes(options_.rank_memory_bytes),
                                  " per rank, the emptiest holds ", FormatBytes(emptiest->bytes), " already"),
                     {{"table", QualifiedName(spec)}});
  }

  const absl::Span<const TableRequest> requests_;
  const Cluster& cluster_;
  const PlannerOptions& options_;
  std::vector<RankLoad> loads_;  // [Q]
  double total_bytes_ = 0;
  double total_ids_ = 0;
};

}  // namespace

absl::Status PlannerOptions::Validate() const {
  std::vector<std::string> faults;
  if (rank_memory_bytes < 0) faults.push_back("rank_memory_bytes must be >= 0");
  if (split_min_bytes < 0) faults.push_back("split_min_bytes must be >= 0");
  if (!(split_min_ids >= 0)) faults.push_back("split_min_ids must be >= 0");
  if (split_min_rows_per_rank < 1) faults.push_back("split_min_rows_per_rank must be >= 1");
  if (tiny_table_bytes < 0) faults.push_back("tiny_table_bytes must be >= 0");
  return faults.empty() ? absl::OkStatus()
                        : MakeError(Reason::kMalformed, absl::StrCat("planner options: ", absl::StrJoin(faults, "; ")));
}

absl::StatusOr<Plan> PlanTables(absl::Span<const TableRequest> requests, const Cluster& cluster,
                                absl::Span<const RankLoad> current, const PlannerOptions& options) {
  EMBPS_RETURN_IF_ERROR(options.Validate());
  EMBPS_RETURN_IF_ERROR(cluster.Validate());
  if (!current.empty() && static_cast<int>(current.size()) != cluster.rank_count()) {
    return MakeError(Reason::kMalformed,
                     absl::StrCat("current use of ", current.size(), " ranks, the cluster has ", cluster.rank_count()));
  }
  EMBPS_RETURN_IF_ERROR(CheckRequests(requests, cluster));
  return Planner(requests, cluster, current, options).Run();
}

}  // namespace embps::plan
