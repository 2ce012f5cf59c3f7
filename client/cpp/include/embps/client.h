// The embps client: one object per trainer process, thread-safe.
//
//   embps::ClientOptions options;
//   options.nodes = {"127.0.0.1:7737", "127.0.0.1:7738"};
//   absl::StatusOr<std::unique_ptr<embps::Client>> client = embps::Client::Connect(options);
//   embps::TableConfig clicks;
//   clicks.spec = {.name = "clicks", .row_count = 1'000'000, .dim = 64};
//   (void)(*client)->CreateTables({clicks});
//   embps::KeyedJaggedTensor kjt{.keys = {"clicks"}, .lengths = {2, 1}, .values = {7, 9, 42}};
//   absl::StatusOr<embps::LookupResult> result = (*client)->Lookup(kjt);  // result->pooled: [2, 64]
//   embps::PushOutcome pushed = (*client)->PushGrad(kjt, embps::Gradients::Pooled(gradients));
//
// Errors: see embps/error.h for reasons. Every call has a deadline. Calls that change something are applied exactly
// once per node, also when replies get lost: the client retries them under the same sequence number. Callbacks run on
// the library's threads: they must not block, nor wait for another call of the same client.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "embps/error.h"
#include "embps/kjt.h"
#include "embps/options.h"
#include "embps/stats.h"
#include "embps/table.h"
#include "embps/tensor.h"

namespace embps {
inline namespace sdk {

// The state of a node that a lookup saw.
struct NodeVersion {
  int node = 0;
  uint64_t incarnation = 0;
  uint64_t version = 0;  // pushes applied there before the lookup
};

struct LookupResult {
  KeyedTensor pooled{};                     // features of tables with kSum or kMean
  std::vector<SequenceTensor> sequences{};  // features of tables with kNone, in table-config order
  std::vector<NodeVersion> nodes{};         // that took part, by node index
  uint64_t dropped_ids = 0;                 // kDrop: ids outside [0, R), the -1 mark not counted
  uint64_t pruned_ids = 0;                  // kDrop: ids equal to -1
  LookupToken token{};                      // null unless asked for and kept by every node
};

// One node's part of a push.
struct NodePush {
  int node = 0;
  absl::Status status{};     // OK = applied, exactly once
  uint64_t incarnation = 0;  // the state it was applied to
  uint64_t version = 0;      // pushes applied on the node, this one included
  uint64_t rows_updated = 0;
  bool duplicate = false;  // the server had applied an earlier attempt
  uint64_t dropped_ids = 0, pruned_ids = 0, dropped_rows = 0, rows_overflowed = 0, values_saturated = 0;
  int attempts = 0;
};

// The data and the sequence number of a push that is not fully acknowledged.
class PushReplay;

struct PushOutcome {
  // Of the whole push: OK when every node applied it. Otherwise the first node's fault in node order; a refusal before
  // anything was sent has no nodes. Exactly once per node, not atomic over nodes: see `nodes`.
  absl::Status status{};
  std::vector<NodePush> nodes{};         // every node that the push names, by node index
  uint64_t sequence = 0;                 // 0 = refused before it got one
  std::shared_ptr<PushReplay> replay{};  // for Client::ReplayPush; null when there is nothing to send again

  bool ok() const { return status.ok(); }
  // A node may or may not have applied its part (deadline, lost connection): replay to find out and complete it.
  bool unknown() const;
};

class ClientImpl;

class Client {
 public:
  // Connects to every node, checks that they are one cluster and all of it (FAILED_PRECONDITION WRONG_CLUSTER) and
  // opens a session on each. UNAVAILABLE when a node is not reachable within connect_timeout_ms.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  // Waits for the calls in flight, then closes the sessions.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // --- Tables. CreateTables and OpenTables attach: Lookup and PushGrad know the attached tables' features, in the
  // order in which the tables were attached (a table attached again keeps its place and takes the new features).

  // Places the tables that do not exist (explicit sharding, else by the planner), creates them and attaches all. A
  // table that exists with an equal spec keeps its placement; with another spec: ALREADY_EXISTS TABLE_SPEC_MISMATCH.
  absl::StatusOr<std::vector<TableInfo>> CreateTables(const std::vector<TableConfig>& configs);
  // What CreateTables would do, and why; changes nothing.
  absl::StatusOr<PlanReport> PlanTables(const std::vector<TableConfig>& configs);
  // Attaches tables that exist: NOT_FOUND TABLE_NOT_FOUND. Of `spec` only the name is read.
  absl::StatusOr<std::vector<TableInfo>> OpenTables(const std::vector<TableConfig>& configs);
  // Detaches and deletes on every node; false = there was none.
  absl::StatusOr<bool> DropTable(absl::string_view name);
  absl::StatusOr<TableInfo> GetTable(absl::string_view name);
  // Of the client's namespace, by name.
  absl::StatusOr<std::vector<TableInfo>> ListTables();
  // Learning rate and step from the next applied push on, on every node that owns a shard.
  absl::Status UpdateTable(absl::string_view name, std::optional<float> learning_rate, std::optional<int64_t> step);
  // Rows of any table of the namespace. OUT_OF_RANGE ID_OUT_OF_RANGE for an id outside it.
  absl::StatusOr<TableRows> ReadRows(absl::string_view table, absl::Span<const int64_t> ids, bool with_state = false);
  // Overwrites rows.ids (distinct) with rows.values [N, D], rounded to nearest; optimizer state too where the widths
  // are not 0 (then state0_width and state1_width must be the table's: D or 1).
  absl::Status WriteRows(absl::string_view table, const TableRows& rows);
  absl::StatusOr<PlanReport> GetPlan();

  // --- Data. A key of the batch must be a feature of an attached table; features left out have no output.

  absl::StatusOr<LookupResult> Lookup(const KjtView& kjt, const LookupOptions& options = {});
  // The arrays of `kjt` must live until `done`, which comes exactly once.
  void LookupAsync(const KjtView& kjt, const LookupOptions& options,
                   std::function<void(absl::StatusOr<LookupResult>)> done);
  // Bytes of LookupResult::pooled of such a lookup.
  absl::StatusOr<int64_t> PooledBytes(const KjtView& kjt, DataType output_dtype = DataType::kFp32);

  // One optimizer step on each table that a key names, also where no id comes. Everything is validated before anything
  // is sent; then status.ok() or see PushOutcome.
  PushOutcome PushGrad(const KjtView& kjt, const Gradients& gradients, const PushOptions& options = {});
  // The arrays of `kjt` and `gradients` must live until `done`.
  void PushGradAsync(const KjtView& kjt, const Gradients& gradients, const PushOptions& options,
                     std::function<void(PushOutcome)> done);
  // Sends what no node has acknowledged, under the same sequence number; acknowledged parts are not sent again. The
  // outcome keeps its own copy of the data. timeout_ms 0 = the client's push_timeout_ms.
  PushOutcome ReplayPush(const PushOutcome& outcome, int timeout_ms = 0);

  // --- The cluster.

  std::vector<ServerInfo> servers() const;  // by node index, as of Connect or the last Recover
  absl::StatusOr<std::vector<ServerInfo>> GetServerInfo();
  // Every node answers for itself.
  std::vector<NodeStats> Stats();
  std::vector<NodeHealth> Health();
  // NOT_SERVING at once, calls in flight finish.
  absl::Status Drain(int node);

  // After STATE_ROLLED_BACK: accepts the loss. Opens new sessions on restarted nodes and creates the attached tables
  // there again, at their initial rows.
  absl::Status Recover();
  // Restarts noticed so far.
  uint64_t rollback_count() const;

 private:
  explicit Client(std::unique_ptr<ClientImpl> impl);
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace sdk
}  // namespace embps
