#include "server/flow/tables_flow.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/planner.h"
#include "proto/plan/table_spec.h"
#include "server/flow/mutation.h"
#include "server/flow/ticket_office.h"
#include "server/table/shard_store.h"
#include "server/table/table_kernels.h"

namespace embps {
namespace {

constexpr int kMaxNewTables = 1024;

absl::Status TableNotFound(absl::string_view name) {
  return MakeError(Reason::kTableNotFound, absl::StrCat("there is no table ", name), {{"table", std::string(name)}});
}

// One CreateTables call whose new rows are being initialised, piece by piece.
class Creation : public std::enable_shared_from_this<Creation> {
 public:
  Creation(Core& core, Reply<v1::CreateTablesResponse> done) : core_(core), done_(std::move(done)) {}

  // Under the store's lock: takes the tickets that write the initial rows.
  void Submit(std::vector<ShardStore::Created> tables);
  void InitPiece(int piece, const LaneContext& lane);
  void PartDone(const absl::Status& status);
  // Nothing was created.
  void Refuse(const absl::Status& status) { std::move(done_)(status); }

 private:
  void Finish();

  Core& core_;
  Reply<v1::CreateTablesResponse> done_;
  std::vector<ShardStore::Created> tables_;
  int pieces_ = 0;
  std::atomic<int> parts_left_{0};  // pieces x ranks
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

class InitPieceFlow final : public Flow {
 public:
  InitPieceFlow(std::shared_ptr<Creation> creation, int piece) : creation_(std::move(creation)), piece_(piece) {}
  void RunRank(const LaneContext& lane) override { creation_->InitPiece(piece_, lane); }

 private:
  const std::shared_ptr<Creation> creation_;
  const int piece_;
};

void Creation::Submit(std::vector<ShardStore::Created> tables) {
  tables_ = std::move(tables);
  int64_t bytes = 0;
  for (const ShardStore::Created& created : tables_) {
    if (created.created) bytes += created.table->bytes();
  }
  pieces_ = static_cast<int>(std::max<int64_t>(1, bytes / core_.options.rank_count() / core_.options.init_piece_bytes));
  parts_left_ = pieces_ * core_.options.rank_count();
  for (int piece = 0; piece < pieces_; ++piece) {
    core_.tickets->TakeForRead(std::make_shared<InitPieceFlow>(shared_from_this(), piece), [](uint64_t) {});
  }
}

void Creation::InitPiece(int piece, const LaneContext& lane) {
  std::vector<kernels::InitRowsTask> tasks;
  for (const ShardStore::Created& created : tables_) {
    if (!created.created) continue;
    for (const auto& shard : created.table->shards(lane.rank)) {
      const int64_t rows = shard->range().row_count();
      const int64_t begin = rows / pieces_ * piece, end = piece + 1 == pieces_ ? rows : rows / pieces_ * (piece + 1);
      if (begin == end) continue;
      tasks.push_back(KernelInitRows(created.table->spec(), shard->view(), begin, end - begin));
    }
  }
  core_.backend->InitRows(tasks, *lane.stream);
  lane.stream->OnComplete([self = shared_from_this()](absl::Status status) { self->PartDone(status); });
}

void Creation::PartDone(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    status_.Update(status);
  }
  if (parts_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish();
}

void Creation::Finish() {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = status_;
  }
  v1::CreateTablesResponse response;
  for (const ShardStore::Created& created : tables_) {
    const v1::TableSpec& spec = created.table->spec();
    if (!status.ok() && created.created) core_.store->Drop(spec.namespace_(), spec.name(), created.table->uid());
    v1::CreatedTable& out = *response.add_tables();
    *out.mutable_table() = created.table->ToProto();
    out.set_created(created.created);
  }
  if (!status.ok()) return std::move(done_)(std::move(status));
  std::move(done_)(std::move(response));
}

absl::Status ApplyUpdate(Core& core, const v1::UpdateTableRequest& request, v1::UpdateTableResponse& response) {
  if (request.has_learning_rate() && !(std::isfinite(request.learning_rate()) && request.learning_rate() >= 0)) {
    return MakeError(Reason::kMalformed,
                     absl::StrCat("learning_rate: ", request.learning_rate(), " is not finite and >= 0"));
  }
  if (request.has_step() && request.step() < 0) {
    return MakeError(Reason::kMalformed, absl::StrCat("step: ", request.step(), " is negative"));
  }
  const std::shared_ptr<Table> table = core.store->FindByUid(request.table_uid());
  if (table == nullptr) {
    return MakeError(Reason::kTableNotFound,
                     absl::StrFormat("table_uid: there is no table %016x", request.table_uid()));
  }
  core.tickets->InOrder([&] {
    if (request.has_learning_rate()) table->set_learning_rate(request.learning_rate());
    if (request.has_step()) table->set_step(request.step());
    *response.mutable_table() = table->ToProto();
  });
  return absl::OkStatus();
}

void AddUse(const Table& table, const plan::Cluster& cluster, v1::GetPlanResponse& response) {
  const v1::TableSpec& spec = table.spec();
  for (const plan::ShardRange& shard : table.layout().shards()) {
    v1::RankUse& use = *response.mutable_ranks(cluster.GlobalRank(shard.home));
    use.set_table_bytes(use.table_bytes() + shard.row_count() * plan::RowBytes(spec, shard.column_count()));
    use.set_state_bytes(use.state_bytes() + shard.row_count() * plan::StateBytesPerRow(spec, shard.column_count()));
    use.set_shard_count(use.shard_count() + 1);
  }
}

}  // namespace

void CreateTables(Core& core, const v1::CreateTablesRequest& request, Reply<v1::CreateTablesResponse> done) {
  if (request.tables_size() < 1 || request.tables_size() > kMaxNewTables) {
    return std::move(done)(
        MakeError(Reason::kMalformed, absl::StrCat("tables: ", request.tables_size(), " is not 1 to ", kMaxNewTables)));
  }
  std::vector<const v1::NewTable*> tables;
  for (const v1::NewTable& table : request.tables()) tables.push_back(&table);
  auto creation = std::make_shared<Creation>(core, std::move(done));
  const auto created = core.store->Create(tables, [&](absl::Span<const ShardStore::Created> result) {
    creation->Submit({result.begin(), result.end()});
  });
  if (!created.ok()) creation->Refuse(created.status());
}

absl::StatusOr<v1::GetTableResponse> GetTable(Core& core, const v1::GetTableRequest& request) {
  EMBPS_RETURN_IF_ERROR(plan::ValidateNamespace("namespace", request.namespace_()));
  EMBPS_RETURN_IF_ERROR(plan::ValidateTableName("name", request.name()));
  const std::shared_ptr<Table> table = core.store->FindByName(request.namespace_(), request.name());
  if (table == nullptr) return TableNotFound(absl::StrCat(request.namespace_(), "/", request.name()));
  v1::GetTableResponse response;
  *response.mutable_table() = table->ToProto();
  return response;
}

absl::StatusOr<v1::ListTablesResponse> ListTables(Core& core, const v1::ListTablesRequest& request) {
  EMBPS_RETURN_IF_ERROR(plan::ValidateNamespace("namespace", request.namespace_()));
  v1::ListTablesResponse response;
  for (const auto& table : core.store->List(request.namespace_())) *response.add_tables() = table->ToProto();
  return response;
}

absl::StatusOr<v1::DeleteTableResponse> DeleteTable(Core& core, const v1::DeleteTableRequest& request) {
  EMBPS_RETURN_IF_ERROR(plan::ValidateNamespace("namespace", request.namespace_()));
  EMBPS_RETURN_IF_ERROR(plan::ValidateTableName("name", request.name()));
  const auto dropped = core.store->Drop(request.namespace_(), request.name(), request.table_uid());
  v1::DeleteTableResponse response;
  if (dropped != nullptr) response.set_table_uid(dropped->uid());
  return response;
}

void UpdateTable(Core& core, const v1::UpdateTableRequest& request, Reply<v1::UpdateTableResponse> done) {
  RunOnce<v1::UpdateTableResponse>(core, request.mutation(), std::move(done),
                                   [&](Mutation mutation, Reply<v1::UpdateTableResponse> reply) {
                                     v1::UpdateTableResponse response;
                                     const absl::Status status = ApplyUpdate(core, request, response);
                                     if (!status.ok()) {
                                       mutation.Failed(status);
                                       return std::move(reply)(status);
                                     }
                                     mutation.Applied(response.SerializeAsString());
                                     std::move(reply)(std::move(response));
                                   });
}

absl::StatusOr<v1::GetPlanResponse> GetPlan(Core& core, const v1::GetPlanRequest& request) {
  EMBPS_RETURN_IF_ERROR(plan::ValidateNamespace("namespace", request.namespace_()));
  const plan::Cluster& cluster = core.store->cluster();
  v1::GetPlanResponse response;
  for (int q = 0; q < cluster.rank_count(); ++q) {
    v1::RankUse& use = *response.add_ranks();
    use.set_node(cluster.RankOf(q).node);
    use.set_rank(cluster.RankOf(q).rank);
  }
  for (const auto& table : core.store->List(request.namespace_())) {
    *response.add_tables() = table->ToProto();
    AddUse(*table, cluster, response);
    for (const std::string& warning : plan::PlacementWarnings(table->spec(), table->placement())) {
      response.add_warnings(warning);
    }
  }
  return response;
}

}  // namespace embps
