// The tables of one node by uid and by name.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "embps/v1/table.pb.h"
#include "kernels/api/backend.h"
#include "proto/base/mutex.h"
#include "proto/plan/cluster.h"
#include "server/table/table.h"

namespace embps {

struct ShardStoreOptions {
  plan::Cluster cluster;
  int node = 0;
  // Bytes of rows and state that one rank may hold; 0 = no limit of ours. Beyond it: MEMORY_FULL.
  int64_t rank_memory_limit_bytes = 0;
  // Borrowed; null = nobody observes writes.
  WriteObserver* write_observer = nullptr;
  // Borrowed, required: where the tables' counters live.
  Stats* stats = nullptr;
  // Random table uids; must not return what it returned before. Tests inject a counter.
  absl::AnyInvocable<uint64_t()> new_uid;
};

// Thread-safe. Creating and dropping is compare-and-set by (namespace, name); see table.proto.
class ShardStore {
 public:
  ShardStore(kernels::Backend& backend, ShardStoreOptions options);
  ~ShardStore();

  struct Created {
    std::shared_ptr<Table> table;
    bool created = false;
  };
  // All or nothing. Validates every spec and placement, compares with what is stored, allocates the new tables' memory
  // (zero-filled) and makes them visible. A table named twice in one request is MALFORMED. Errors: MALFORMED,
  // TABLE_SPEC_MISMATCH naming the differing fields with both values, MEMORY_FULL. `publish` runs under the store's
  // lock, after the tables were allocated and before anybody can find them: there the caller takes the tickets that
  // fill in their rows, so that every later flow comes after those.
  absl::StatusOr<std::vector<Created>> Create(absl::Span<const v1::NewTable* const> requests,
                                              absl::AnyInvocable<void(absl::Span<const Created>)> publish);

  // Null when there is none.
  std::shared_ptr<Table> FindByUid(uint64_t uid) const;
  std::shared_ptr<Table> FindByName(absl::string_view name_space, absl::string_view name) const;
  // By (namespace, name); an empty namespace lists all.
  std::vector<std::shared_ptr<Table>> List(absl::string_view name_space) const;

  // The dropped table, or null when there is none of that name (and, unless 0, that uid).
  std::shared_ptr<Table> Drop(absl::string_view name_space, absl::string_view name, uint64_t uid);

  WriteObserver* write_observer() const { return options_.write_observer; }
  int node() const { return options_.node; }
  const plan::Cluster& cluster() const { return options_.cluster; }
  int rank_count() const { return options_.cluster.ranks_per_node[static_cast<size_t>(options_.node)]; }
  // Rows and state on one rank, of dropped tables still in use as well.
  int64_t bytes_in_use(int rank) const;

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, name
  using RankBytes = std::vector<int64_t>;            // [W]
  struct MemoryUse;                                  // by rank; outlives the store with its tables

  absl::StatusOr<Created> FindOrAllocate(const v1::NewTable& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<Table>> Allocate(const v1::NewTable& request, v1::TableSpec spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(absl::Span<const Created> tables);
  absl::StatusOr<std::shared_ptr<void>> Reserve(const v1::TableSpec& spec, const plan::TableLayout& layout);

  kernels::Backend& backend_;
  ShardStoreOptions options_;
  const std::shared_ptr<MemoryUse> memory_;

  mutable Mutex mu_;
  std::map<Name, std::shared_ptr<Table>> by_name_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<Table>> by_uid_ ABSL_GUARDED_BY(mu_);
};

}  // namespace embps
