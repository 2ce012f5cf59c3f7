#include "server/flow/rows_flow.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/row_codec.h"
#include "server/flow/mutation.h"
#include "server/flow/row_parts.h"
#include "server/flow/ticket_office.h"
#include "server/table/shard_store.h"

namespace embps {
namespace {

absl::StatusOr<std::shared_ptr<Table>> FindTable(const Core& core, uint64_t uid, uint64_t placement_version) {
  std::shared_ptr<Table> table = core.store->FindByUid(uid);
  if (table == nullptr) {
    return MakeError(Reason::kTableNotFound, absl::StrFormat("table_uid: there is no table %016x", uid));
  }
  if (placement_version != table->placement_version()) {
    return MakeError(Reason::kPlanStale,
                     absl::StrFormat("placement_version: table %s is at %d, requested %d", table->name(),
                                     table->placement_version(), placement_version),
                     {{"placement_version", absl::StrCat(table->placement_version())}});
  }
  return table;
}

absl::StatusOr<std::vector<int64_t>> DecodeIds(const Core& core, const Table& table, absl::string_view bytes,
                                               bool distinct) {
  const v1::TableSpec& spec = table.spec();
  const wire::TableInfo info{table.name(),         spec.row_count(),          spec.dim(),
                             spec.id_type(),       table.placement_version(), table.node_rows().begin,
                             table.node_rows().end};
  return wire::DecodeRowIds(info, bytes, static_cast<int64_t>(core.options.limits.max_ids()), distinct);
}

// Calls Finish once every rank's stream has run its part.
class RowsFlow : public Flow, public std::enable_shared_from_this<RowsFlow> {
 public:
  explicit RowsFlow(Core& core) : core_(core), ranks_running_(core.options.rank_count()) {}
  void RunRank(const LaneContext& lane) final {
    Enqueue(lane);
    lane.stream->OnComplete([self = shared_from_this()](absl::Status status) { self->RankDone(status); });
  }

 protected:
  virtual void Enqueue(const LaneContext& lane) = 0;
  virtual void Finish(const absl::Status& status) = 0;
  Core& core_;

 private:
  void RankDone(const absl::Status& status) {
    absl::Status first;
    {
      MutexLock lock(&mu_);
      status_.Update(status);
      first = status_;
    }
    if (ranks_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish(first);
  }
  std::atomic<int> ranks_running_;
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

class ReadRowsFlow final : public RowsFlow {
 public:
  ReadRowsFlow(Core& core, Reply<v1::ReadRowsResponse> done) : RowsFlow(core), done_(std::move(done)) {}

  void Start(const v1::ReadRowsRequest& request) {
    if (absl::Status status = Prepare(request); !status.ok()) return std::move(done_)(std::move(status));
    core_.tickets->TakeForRead(shared_from_this(), [this](uint64_t) { response_.set_step(table_->step()); });
  }

 private:
  absl::Status Prepare(const v1::ReadRowsRequest& request) {
    EMBPS_ASSIGN_OR_RETURN(table_, FindTable(core_, request.table_uid(), request.placement_version()));
    EMBPS_ASSIGN_OR_RETURN(std::vector<int64_t> ids, DecodeIds(core_, *table_, request.ids(), /*distinct=*/false));
    const int64_t bytes = static_cast<int64_t>(ids.size()) * ReadRowBytes(*table_, request.with_state());
    if (bytes > static_cast<int64_t>(core_.options.limits.max_unary_bytes())) {
      return MakeError(Reason::kMessageTooLarge,
                       absl::StrFormat("ids: %d rows of table %s are %d bytes, a reply holds at most %d: ask for fewer",
                                       ids.size(), table_->name(), bytes, core_.options.limits.max_unary_bytes()));
    }
    parts_ = PlanReadRows(*core_.backend, *table_, std::move(ids), request.with_state());
    return parts_->status();
  }
  void Enqueue(const LaneContext& lane) override { parts_->Run(lane.rank, *core_.backend, *lane.stream); }
  void Finish(const absl::Status& status) override {
    if (!status.ok()) return std::move(done_)(status);
    parts_->Fill(response_);
    std::move(done_)(std::move(response_));
  }

  Reply<v1::ReadRowsResponse> done_;
  std::shared_ptr<Table> table_;
  std::unique_ptr<RowParts> parts_;
  v1::ReadRowsResponse response_;
};

class WriteRowsFlow final : public RowsFlow {
 public:
  WriteRowsFlow(Core& core, Mutation mutation, Reply<v1::WriteRowsResponse> done)
      : RowsFlow(core), mutation_(std::move(mutation)), done_(std::move(done)) {}

  void Start(const v1::WriteRowsRequest& request) {
    if (absl::Status status = Prepare(request); !status.ok()) {
      mutation_.Failed(status);
      return std::move(done_)(std::move(status));
    }
    core_.tickets->TakeForRead(shared_from_this(), [](uint64_t) {});
  }

 private:
  absl::Status Prepare(const v1::WriteRowsRequest& request) {
    EMBPS_ASSIGN_OR_RETURN(table_, FindTable(core_, request.table_uid(), request.placement_version()));
    EMBPS_ASSIGN_OR_RETURN(std::vector<int64_t> ids, DecodeIds(core_, *table_, request.ids(), /*distinct=*/true));
    const auto rows = static_cast<int64_t>(ids.size());
    const int32_t dim = table_->spec().dim();
    const kernels::StateWidths widths = WholeStateWidths(*table_);
    RowValues values;
    EMBPS_ASSIGN_OR_RETURN(values.rows, wire::DecodeRowValues("rows", request.rows(), rows, dim));
    const int32_t state0 = request.with_state() ? widths.state0 : 0, state1 = request.with_state() ? widths.state1 : 0;
    EMBPS_ASSIGN_OR_RETURN(values.state0, wire::DecodeRowValues("state0", request.state0(), rows, state0));
    EMBPS_ASSIGN_OR_RETURN(values.state1, wire::DecodeRowValues("state1", request.state1(), rows, state1));
    response_.set_rows_written(static_cast<uint64_t>(rows));
    parts_ = PlanWriteRows(*core_.backend, *table_, std::move(ids), std::move(values), request.with_state());
    return parts_->status();
  }
  void Enqueue(const LaneContext& lane) override {
    if (core_.store->write_observer() != nullptr)
      parts_->Observe(lane.rank, *core_.store->write_observer(), *lane.stream);
    parts_->Run(lane.rank, *core_.backend, *lane.stream);
  }
  void Finish(const absl::Status& status) override {
    if (!status.ok()) {
      mutation_.FailedAfterTicket(status);
      return std::move(done_)(status);
    }
    mutation_.Applied(response_.SerializeAsString());
    std::move(done_)(std::move(response_));
  }

  Mutation mutation_;
  Reply<v1::WriteRowsResponse> done_;
  std::shared_ptr<Table> table_;
  std::unique_ptr<RowParts> parts_;
  v1::WriteRowsResponse response_;
};

}  // namespace

void ReadRows(Core& core, const v1::ReadRowsRequest& request, Reply<v1::ReadRowsResponse> done) {
  std::make_shared<ReadRowsFlow>(core, std::move(done))->Start(request);
}

void WriteRows(Core& core, const v1::WriteRowsRequest& request, Reply<v1::WriteRowsResponse> done) {
  RunOnce<v1::WriteRowsResponse>(
      core, request.mutation(), std::move(done), [&](Mutation mutation, Reply<v1::WriteRowsResponse> reply) {
        std::make_shared<WriteRowsFlow>(core, std::move(mutation), std::move(reply))->Start(request);
      });
}

}  // namespace embps
