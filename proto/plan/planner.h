// Chooses where new tables go: once, when they are created. A pure function, equal for equal input on every client.
//
// Tables are placed largest first (share of all bytes or of all expected ids, whichever is larger), each on the rank
// that ends with the smallest share. A table too big or too hot for one rank is cut by rows over all ranks; by columns
// if it has too few rows to cut and its optimizer has no norm over the row. Columns of a row-norm optimizer are cut,
// and copies are made, only when a table asks for that sharding type by name.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "embps/v1/types.pb.h"
#include "proto/plan/cluster.h"
#include "proto/plan/placement_builder.h"
#include "proto/plan/placement_load.h"

namespace embps::plan {

struct TableRequest {
  // sharding_type UNSPECIFIED = AUTO: the planner chooses the type as well.
  v1::TableSpec spec;
  // Ids looked up in the table per batch, all its features together; 0 = not known.
  double ids_per_batch = 0;
  // What an explicit sharding_type may fix; -1 and 0 leave the choice to the planner.
  int node = -1;          // TABLE_WISE, TABLE_ROW_WISE, DATA_PARALLEL; COLUMN_WISE: all slices on ranks of this node
  int rank = -1;          // TABLE_WISE, with node
  int column_slices = 0;  // COLUMN_WISE
};

struct PlannerOptions {
  // Bytes of tables that one rank may hold, as GetServerInfo's memory_limit_bytes; 0 = no limit.
  int64_t rank_memory_bytes = 0;
  // AUTO: a table is too big for one rank above the fair share of all bytes (sum / Q), but never below this.
  int64_t split_min_bytes = int64_t{64} << 20;
  // AUTO: a table is too hot for one rank above the fair share of all ids (sum / Q), but never below this.
  double split_min_ids = 65536;
  // AUTO: a table with fewer rows than this per rank is not cut by rows.
  int64_t split_min_rows_per_rank = 8;
  // A warning tells of DATA_PARALLEL copies larger than this.
  int64_t tiny_table_bytes = int64_t{16} << 20;

  absl::Status Validate() const;
};

// Why one table went where it did.
struct PlacementReason {
  std::string table;  // namespace/name
  std::string text;   // "TABLE_WISE on node 0 rank 1: ..."
};

struct Plan {
  Cluster cluster;
  std::vector<v1::Placement> placements;  // in request order
  std::vector<PlacementReason> reasons;   // in request order
  std::vector<std::string> warnings;
  std::vector<RankLoad> loads;  // [Q], the use before included

  // One line per table, then one per rank, then the warnings.
  std::string Explain() const;
};

// `current`: [Q] what the ranks hold already, or empty. INVALID_ARGUMENT for bad specs, two requests for one name or a
// home that does not exist; RESOURCE_EXHAUSTED MEMORY_FULL naming the table when it fits nowhere.
absl::StatusOr<Plan> PlanTables(absl::Span<const TableRequest> requests, const Cluster& cluster,
                                absl::Span<const RankLoad> current, const PlannerOptions& options = {});

// What an operator should know about a stored placement (also what GetPlan reports): such as a row-norm optimizer whose
// columns are cut.
std::vector<std::string> PlacementWarnings(const v1::TableSpec& spec, const v1::Placement& placement,
                                           const PlannerOptions& options = {});

}  // namespace embps::plan
