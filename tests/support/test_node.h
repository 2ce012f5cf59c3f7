// One node of a cluster without gRPC: the parts of a server put together by hand, and calls on its flows that wait for
// their answers. Requests go through the wire format, cut into pieces of odd sizes.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "embps/v1/embedding.pb.h"
#include "embps/v1/table.pb.h"
#include "kernels/api/backend.h"
#include "proto/base/check.h"
#include "proto/base/mutex.h"
#include "proto/plan/placement_builder.h"
#include "server/collective/counting.h"
#include "server/env/clock.h"
#include "server/env/worker_pool.h"
#include "server/flow/core.h"
#include "server/flow/lookup_flow.h"
#include "server/flow/lookup_tokens.h"
#include "server/flow/push_grad_flow.h"
#include "server/flow/ticket_office.h"
#include "server/session/session_store.h"
#include "server/stats/stats.h"
#include "server/table/shard_store.h"

namespace embps::testing {

struct TestNodeOptions {
  std::vector<int> ranks_per_node = {1};
  int node = 0;
  int workers = 1;
  bool deferred = false;    // operations run as late as the interface allows
  int64_t chunk_bytes = 0;  // of the collective; 0 = not chunked
  int64_t rank_memory_limit_bytes = 0;
  int64_t token_bytes = int64_t{64} << 20;
  int64_t frame_bytes = int64_t{4} << 10;  // small, so that replies have several blocks
  int64_t init_piece_bytes = int64_t{1} << 20;
  bool dedupe = true;
  WriteObserver* write_observer = nullptr;
};

// One feature of a request.
struct FeatureInput {
  v1::Table table;
  v1::Pooling pooling = v1::POOLING_SUM;
  std::vector<int64_t> lengths;
  std::vector<int64_t> ids;
  std::vector<float> weights;      // if the batch is weighted
  std::vector<int64_t> bag_sizes;  // not empty = split_bags
  std::vector<float> grads;        // pushes: [bags or ids, dim]
};

struct BatchInput {
  std::vector<FeatureInput> features;
  bool weighted = false;
  v1::OutOfRangePolicy policy = v1::OUT_OF_RANGE_POLICY_ERROR;
  v1::DataType output_dtype = v1::DATA_TYPE_FP32;
  bool want_token = false;
  uint32_t frame_bytes = 0;
};

struct LookupOutput {
  std::vector<std::vector<float>> rows;  // by feature, [rows, node's columns], widened to fp32
  LookupReplyInfo info;
  int blocks = 0;
};

struct PushInput {
  BatchInput batch;
  uint64_t sequence = 0;          // 0 = the next one
  uint64_t first_incomplete = 0;  // 0 = the sequence
  uint64_t digest = 0;
  std::string token;  // not empty: only gradients are sent
  float grad_scale = 1.0f;
  std::vector<std::pair<uint64_t, float>> learning_rates;
  v1::NonfinitePolicy nonfinite_policy = v1::NONFINITE_POLICY_REFUSE;
};

// A node's view of the rows of a table: ids must be of this node.
struct TableRows {
  int64_t step = 0;
  std::vector<v1::RowSlice> slices;
  std::vector<float> rows, state0, state1;  // slices one after another
};

class TestNode {
 public:
  explicit TestNode(const TestNodeOptions& options = {});
  ~TestNode();

  Core& core() { return core_; }
  FakeClock& clock() { return clock_; }
  const std::string& session() const { return session_; }
  std::string NewSession();

  // Placed by MakePlacement.
  absl::StatusOr<v1::Table> CreateTable(const v1::TableSpec& spec, v1::ShardingType type,
                                        const plan::PlacementOptions& placement = {}, uint64_t uid = 0);
  absl::StatusOr<v1::CreateTablesResponse> CreateTables(const v1::CreateTablesRequest& request);

  absl::StatusOr<LookupOutput> Lookup(const BatchInput& batch);
  absl::StatusOr<v1::PushGradResponse> Push(const PushInput& push);
  absl::StatusOr<v1::PushGradResponse> Push(const BatchInput& batch);

  absl::StatusOr<TableRows> ReadRows(const v1::Table& table, const std::vector<int64_t>& ids, bool with_state = true);
  absl::StatusOr<v1::WriteRowsResponse> WriteRows(const v1::Table& table, const std::vector<int64_t>& ids,
                                                  const std::vector<float>& rows);
  absl::StatusOr<v1::UpdateTableResponse> UpdateTable(const v1::UpdateTableRequest& request);

  // Pieces of calls, for tests that stop half-way.
  v1::LookupHeader LookupHeader(const BatchInput& batch) const;
  v1::PushGradHeader PushHeader(const PushInput& push);
  v1::MutationId NextMutation();
  // Feeds a whole request to a begun flow, which must outlive nothing of it.
  absl::Status Feed(LookupFlow& flow, const BatchInput& batch, std::shared_ptr<void> grant = nullptr);
  absl::Status Feed(PushGradFlow& flow, const PushInput& push);

  // Until the lanes have let go of every flow submitted so far.
  void AwaitLanes();

  uint64_t collective_bytes() const { return counters_->total_bytes(); }
  void set_collective_observer(std::function<void(const CollectiveCall&)> observer) {
    collective_observer_ = std::move(observer);
  }

 private:
  FakeClock clock_;
  Stats stats_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<CollectiveCounters> counters_;
  std::function<void(const CollectiveCall&)> collective_observer_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  std::unique_ptr<ShardStore> store_;
  std::unique_ptr<SessionStore> sessions_;
  std::unique_ptr<LookupTokens> tokens_;
  std::unique_ptr<Sequencer> sequencer_;
  std::unique_ptr<TicketOffice> tickets_;
  Core core_;
  uint64_t next_uid_ = 100;
  std::string session_;
  uint64_t sequence_ = 0;
};

// Waits for the one answer of an asynchronous call.
template <class T>
class Answer {
 public:
  // May be called once.
  absl::AnyInvocable<void(T) &&> Callback() {
    return [state = state_](T value) {
      MutexLock lock(&state->mu);
      EMBPS_CHECK(!state->value.has_value());
      state->value.emplace(std::move(value));
      state->cv.NotifyAll();
    };
  }
  bool ready() const {
    MutexLock lock(&state_->mu);
    return state_->value.has_value();
  }
  T Wait() {
    MutexLock lock(&state_->mu);
    while (!state_->value.has_value()) state_->cv.Wait(&state_->mu);
    return *state_->value;
  }

 private:
  struct State {
    Mutex mu;
    CondVar cv;
    std::optional<T> value ABSL_GUARDED_BY(mu);
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// FP32 SGD table with constant initial rows; change what matters.
v1::TableSpec SmallSpec(const std::string& name, int64_t rows, int32_t dim, float value = 0.0f);

// Bags given as lists of ids.
FeatureInput Bags(const v1::Table& table, const std::vector<std::vector<int64_t>>& bags,
                  v1::Pooling pooling = v1::POOLING_SUM);

}  // namespace embps::testing
