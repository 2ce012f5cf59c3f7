#include "server/table/shard_store.h"

#include <atomic>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/table_spec.h"

namespace embps {
namespace {

std::string NamespaceOf(absl::string_view name_space) {
  return name_space.empty() ? std::string("default") : std::string(name_space);
}

std::string UidText(uint64_t uid) { return absl::StrFormat("%016x", uid); }

absl::Status Mismatch(const Table& stored, absl::string_view difference) {
  return MakeError(Reason::kTableSpecMismatch,
                   absl::StrCat("table ", stored.name(), " exists and differs: ", difference),
                   {{"table", stored.name()}, {"table_uid", UidText(stored.uid())}});
}

// A request that names the uid comes after node 0 has answered, so its placement is the stored one or a fault.
absl::Status CheckSame(const Table& stored, const v1::NewTable& request, const v1::TableSpec& spec) {
  if (const std::string difference = plan::DescribeSpecDifference(stored.spec(), spec); !difference.empty()) {
    return Mismatch(stored, difference);
  }
  if (request.table_uid() == 0) return absl::OkStatus();
  if (request.table_uid() != stored.uid()) {
    return Mismatch(stored, absl::StrCat("table_uid: stored ", UidText(stored.uid()), ", requested ",
                                         UidText(request.table_uid()), " (another creation of that name: drop it)"));
  }
  if (request.placement().SerializeAsString() != stored.placement().SerializeAsString()) {
    return Mismatch(stored, absl::StrCat("placement: stored ", stored.placement().ShortDebugString(), ", requested ",
                                         request.placement().ShortDebugString()));
  }
  return absl::OkStatus();
}

int32_t NodeColumn(const plan::TableLayout& layout, const plan::ShardRange& range) {
  int32_t column = 0;
  for (const plan::ShardRange& slice : layout.ColumnSlicesOf(range.home.node)) {
    if (slice.column_begin < range.column_begin) column += slice.column_count();
  }
  return column;
}

absl::Status CheckDistinct(absl::Span<const v1::NewTable* const> requests) {
  std::set<std::pair<std::string, std::string>> names;
  std::set<uint64_t> uids;
  for (const v1::NewTable* request : requests) {
    const v1::TableSpec& spec = request->spec();
    if (!names.emplace(NamespaceOf(spec.namespace_()), spec.name()).second) {
      return MakeError(Reason::kMalformed,
                       absl::StrCat("tables: ", plan::QualifiedName(spec), " stands in the request twice"));
    }
    if (request->table_uid() != 0 && !uids.insert(request->table_uid()).second) {
      return MakeError(Reason::kMalformed, absl::StrCat("tables: table_uid ", UidText(request->table_uid()),
                                                        " stands in the request twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

struct ShardStore::MemoryUse {
  explicit MemoryUse(int ranks) : bytes(static_cast<size_t>(ranks)) {}
  std::vector<std::atomic<int64_t>> bytes;  // [W]
};

ShardStore::ShardStore(kernels::Backend& backend, ShardStoreOptions options)
    : backend_(backend),
      options_(std::move(options)),
      memory_(std::make_shared<MemoryUse>(options_.cluster.ranks_per_node[static_cast<size_t>(options_.node)])) {}

ShardStore::~ShardStore() = default;

absl::StatusOr<std::vector<ShardStore::Created>> ShardStore::Create(
    absl::Span<const v1::NewTable* const> requests, absl::AnyInvocable<void(absl::Span<const Created>)> publish) {
  EMBPS_RETURN_IF_ERROR(CheckDistinct(requests));
  MutexLock lock(&mu_);
  std::vector<Created> out;
  for (const v1::NewTable* request : requests) {
    absl::StatusOr<Created> created = FindOrAllocate(*request);
    if (!created.ok()) {
      Forget(out);
      return created.status();
    }
    out.push_back(*std::move(created));
  }
  publish(out);
  for (const Created& created : out) {
    if (!created.created) continue;
    const Table& table = *created.table;
    by_name_[{table.spec().namespace_(), table.spec().name()}] = created.table;
    by_uid_[table.uid()] = created.table;
  }
  return out;
}

void ShardStore::Forget(absl::Span<const Created> tables) {
  for (const Created& created : tables) {
    if (created.created) options_.stats->RemoveTable(created.table->uid());
  }
}

absl::StatusOr<ShardStore::Created> ShardStore::FindOrAllocate(const v1::NewTable& request) {
  EMBPS_RETURN_IF_ERROR(plan::ValidateTableSpec(request.spec()));
  v1::TableSpec spec = plan::NormalizeTableSpec(request.spec());
  if (const auto found = by_name_.find({spec.namespace_(), spec.name()}); found != by_name_.end()) {
    EMBPS_RETURN_IF_ERROR(CheckSame(*found->second, request, spec));
    return Created{found->second, false};
  }
  if (request.table_uid() == 0 && options_.node != 0) {
    return MakeError(Reason::kMalformed,
                     absl::StrCat("tables: ", plan::QualifiedName(spec), ": table_uid is 0 on node ", options_.node,
                                  "; create on node 0 first, it gives the uid"));
  }
  if (const auto taken = by_uid_.find(request.table_uid()); taken != by_uid_.end()) {
    return Mismatch(*taken->second, absl::StrCat("table_uid ", UidText(request.table_uid()),
                                                 " is in use, requested for ", plan::QualifiedName(spec)));
  }
  EMBPS_ASSIGN_OR_RETURN(std::shared_ptr<Table> table, Allocate(request, std::move(spec)));
  return Created{std::move(table), true};
}

absl::StatusOr<std::shared_ptr<void>> ShardStore::Reserve(const v1::TableSpec& spec, const plan::TableLayout& layout) {
  RankBytes wanted(static_cast<size_t>(rank_count()));
  for (const plan::ShardRange& range : layout.ShardsOf(options_.node)) {
    wanted[static_cast<size_t>(range.home.rank)] += TableShard::BytesOf(spec, range);
  }
  std::shared_ptr<void> reservation(nullptr, [memory = memory_, wanted](void*) {
    for (size_t rank = 0; rank < wanted.size(); ++rank) memory->bytes[rank] -= wanted[rank];
  });
  for (size_t rank = 0; rank < wanted.size(); ++rank) memory_->bytes[rank] += wanted[rank];
  if (options_.rank_memory_limit_bytes == 0) return reservation;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const int64_t used = memory_->bytes[rank] - wanted[rank];
    if (wanted[rank] == 0 || used + wanted[rank] <= options_.rank_memory_limit_bytes) continue;
    return MakeError(Reason::kMemoryFull,
                     absl::StrFormat("table %s needs %d bytes on rank %d of node %d, where %d of %d are in use",
                                     plan::QualifiedName(spec), wanted[rank], rank, options_.node, used,
                                     options_.rank_memory_limit_bytes),
                     {{"table", plan::QualifiedName(spec)}});
  }
  return reservation;
}

absl::StatusOr<std::shared_ptr<Table>> ShardStore::Allocate(const v1::NewTable& request, v1::TableSpec spec) {
  EMBPS_ASSIGN_OR_RETURN(plan::TableLayout layout,
                         plan::TableLayout::Create(spec, request.placement(), options_.cluster));
  Table::Parts parts;
  EMBPS_ASSIGN_OR_RETURN(parts.memory_use, Reserve(spec, layout));
  for (int rank = 0; rank < rank_count(); ++rank) {
    auto& shards = parts.shards.emplace_back();
    for (const plan::ShardRange& range : layout.ShardsOf(plan::RankId{options_.node, rank})) {
      EMBPS_ASSIGN_OR_RETURN(auto shard, TableShard::Allocate(backend_, spec, range, NodeColumn(layout, range)));
      shards.push_back(std::move(shard));
    }
  }
  parts.uid = request.table_uid() != 0 ? request.table_uid() : options_.new_uid();
  parts.counters = options_.stats->AddTable(spec.namespace_(), spec.name(), parts.uid, rank_count());
  parts.placement = request.placement();
  parts.spec = std::move(spec);
  return std::make_shared<Table>(std::move(parts), std::move(layout), options_.node);
}

std::shared_ptr<Table> ShardStore::FindByUid(uint64_t uid) const {
  MutexLock lock(&mu_);
  const auto found = by_uid_.find(uid);
  return found == by_uid_.end() ? nullptr : found->second;
}

std::shared_ptr<Table> ShardStore::FindByName(absl::string_view name_space, absl::string_view name) const {
  MutexLock lock(&mu_);
  const auto found = by_name_.find({NamespaceOf(name_space), std::string(name)});
  return found == by_name_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Table>> ShardStore::List(absl::string_view name_space) const {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<Table>> out;
  for (const auto& [name, table] : by_name_) {
    if (name_space.empty() || name.first == name_space) out.push_back(table);
  }
  return out;
}

std::shared_ptr<Table> ShardStore::Drop(absl::string_view name_space, absl::string_view name, uint64_t uid) {
  MutexLock lock(&mu_);
  const auto found = by_name_.find({NamespaceOf(name_space), std::string(name)});
  if (found == by_name_.end() || (uid != 0 && found->second->uid() != uid)) return nullptr;
  std::shared_ptr<Table> table = found->second;
  by_name_.erase(found);
  by_uid_.erase(table->uid());
  options_.stats->RemoveTable(table->uid());
  return table;
}

int64_t ShardStore::bytes_in_use(int rank) const { return memory_->bytes[static_cast<size_t>(rank)]; }

}  // namespace embps
