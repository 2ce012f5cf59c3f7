// The tables a client has attached, in table-config order, and the features that feed them. An immutable snapshot:
// calls keep the one they began with.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "embps/table.h"
#include "embps/v1/types.pb.h"
#include "proto/plan/cluster.h"
#include "proto/plan/table_layout.h"

namespace embps::client {

struct AttachedTable {
  std::vector<std::string> features;
  Pooling pooling = Pooling::kSum;
  v1::Table table;
  std::string label;  // "default/users", for errors
  plan::TableLayout layout;
};

class Catalog {
 public:
  explicit Catalog(plan::Cluster cluster) : cluster_(std::move(cluster)) {}

  // A copy with the tables attached: one that was attached keeps its place. `tables[i]` is the stored form of
  // configs[i]. INVALID_ARGUMENT when a table names a feature twice or a feature name is empty or too long.
  absl::StatusOr<std::shared_ptr<const Catalog>> Attach(const std::vector<TableConfig>& configs,
                                                        const std::vector<v1::Table>& tables) const;
  // A copy without the table; with the stored forms that `tables` brings for attached ones.
  std::shared_ptr<const Catalog> Detach(absl::string_view name) const;
  absl::StatusOr<std::shared_ptr<const Catalog>> Refresh(const std::vector<v1::Table>& tables) const;

  const plan::Cluster& cluster() const { return cluster_; }
  const std::vector<std::shared_ptr<const AttachedTable>>& tables() const { return tables_; }
  // Indexes into tables(), ascending; empty for an unknown feature.
  absl::Span<const int> TablesOf(absl::string_view feature) const;

 private:
  absl::StatusOr<std::shared_ptr<const AttachedTable>> Make(std::vector<std::string> features, Pooling pooling,
                                                            const v1::Table& table) const;
  void Index();

  plan::Cluster cluster_;
  std::vector<std::shared_ptr<const AttachedTable>> tables_;
  absl::flat_hash_map<std::string, std::vector<int>> tables_of_;
};

}  // namespace embps::client
