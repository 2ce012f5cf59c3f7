// Behind embps::Client. Tables and rows are control calls that wait; Lookup and PushGrad are operations of their own
// (lookup_op.h, push_op.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cluster.h"
#include "embps/client.h"
#include "embps/v1/table.pb.h"
#include "proto/plan/planner.h"

namespace embps {
inline namespace sdk {

class ClientImpl {
 public:
  explicit ClientImpl(std::unique_ptr<client::Cluster> cluster) : cluster_(std::move(cluster)) {}

  // A client over parts of the caller's: tests.
  static absl::StatusOr<std::unique_ptr<ClientImpl>> Connect(const ClientOptions& options, client::ClusterParts parts);

  client::Cluster& cluster() { return *cluster_; }

  // tables.cc
  absl::StatusOr<std::vector<TableInfo>> CreateTables(const std::vector<TableConfig>& configs);
  absl::StatusOr<PlanReport> PlanTables(const std::vector<TableConfig>& configs);
  absl::StatusOr<std::vector<TableInfo>> OpenTables(const std::vector<TableConfig>& configs);
  absl::StatusOr<bool> DropTable(absl::string_view name);
  absl::StatusOr<v1::Table> GetTable(absl::string_view name);
  absl::StatusOr<std::vector<TableInfo>> ListTables();
  absl::StatusOr<PlanReport> GetPlan();

  // rows.cc
  absl::Status UpdateTable(absl::string_view name, std::optional<float> learning_rate, std::optional<int64_t> step);
  absl::StatusOr<TableRows> ReadRows(absl::string_view table, absl::Span<const int64_t> ids, bool with_state);
  absl::Status WriteRows(absl::string_view table, const TableRows& rows);

  void LookupAsync(const KjtView& kjt, const LookupOptions& options,
                   std::function<void(absl::StatusOr<LookupResult>)> done);
  void PushGradAsync(const KjtView& kjt, const Gradients& gradients, const PushOptions& options,
                     std::function<void(PushOutcome)> done);
  void ReplayAsync(const PushOutcome& outcome, int timeout_ms, std::function<void(PushOutcome)> done);

 private:
  client::TimePoint ControlDeadline() { return cluster_->DeadlineAfter(cluster_->options().control_timeout_ms); }
  // The tables of `configs` that node 0 has, and where the others would go. placements[i] belongs to configs[i].
  struct Placing {
    std::vector<v1::Placement> placements;
    std::vector<v1::TableSpec> specs;
    plan::Plan plan;  // of the new tables only
  };
  absl::StatusOr<Placing> PlaceTables(const std::vector<TableConfig>& configs, client::TimePoint deadline);
  absl::StatusOr<std::vector<v1::Table>> CreateOn(int node, const std::vector<v1::NewTable>& tables,
                                                  client::TimePoint deadline);
  absl::Status Attach(const std::vector<TableConfig>& configs, const std::vector<v1::Table>& tables);
  // Runs `send(sequence)` as a mutation: in its turn, under a number of its own.
  absl::Status Mutate(client::TimePoint deadline, const std::function<absl::Status(uint64_t)>& send);
  void FillMutation(int node, uint64_t sequence, uint64_t digest, v1::MutationId* mutation);
  absl::Status ReadRowsOf(int node, const v1::Table& table, absl::Span<const int64_t> ids,
                          absl::Span<const int64_t> places, bool with_state, client::TimePoint deadline,
                          TableRows* rows);
  absl::Status WriteRowsOf(int node, const v1::Table& table, absl::Span<const int64_t> places, const TableRows& rows,
                           client::TimePoint deadline);

  std::unique_ptr<client::Cluster> cluster_;
};

}  // namespace sdk
}  // namespace embps
