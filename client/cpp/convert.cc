#include "client/cpp/convert.h"

namespace embps::client {
namespace {

v1::OptimizerSpec ToProto(const OptimizerSpec& spec) {
  v1::OptimizerSpec out;
  // Both enums list the optimizers in the same order; zero is UNSPECIFIED on the wire.
  out.set_type(static_cast<v1::OptimizerType>(static_cast<int>(spec.type) + 1));
  out.set_learning_rate(spec.learning_rate);
  out.set_eps(spec.eps);
  out.set_beta1(spec.beta1);
  out.set_beta2(spec.beta2);
  out.set_eta(spec.eta);
  out.set_momentum(spec.momentum);
  out.set_weight_decay(spec.weight_decay);
  out.set_weight_decay_mode(static_cast<v1::WeightDecayMode>(static_cast<int>(spec.weight_decay_mode) + 1));
  out.set_max_gradient(spec.max_gradient);
  out.set_max_norm(spec.max_norm);
  return out;
}

// A value of an enum that is one behind its wire form; zero and unknown values give the first.
template <typename Enum, typename Proto>
Enum OneBehind(Proto value, int count) {
  const int index = static_cast<int>(value) - 1;
  return static_cast<Enum>(index >= 0 && index < count ? index : 0);
}

OptimizerSpec FromProto(const v1::OptimizerSpec& spec) {
  OptimizerSpec out;
  out.type = OneBehind<OptimizerType>(spec.type(), v1::OptimizerType_MAX);
  if (spec.has_learning_rate()) out.learning_rate = spec.learning_rate();
  if (spec.has_eps()) out.eps = spec.eps();
  if (spec.has_beta1()) out.beta1 = spec.beta1();
  if (spec.has_beta2()) out.beta2 = spec.beta2();
  if (spec.has_eta()) out.eta = spec.eta();
  if (spec.has_momentum()) out.momentum = spec.momentum();
  if (spec.has_weight_decay()) out.weight_decay = spec.weight_decay();
  out.weight_decay_mode = OneBehind<WeightDecayMode>(spec.weight_decay_mode(), v1::WeightDecayMode_MAX);
  out.max_gradient = spec.max_gradient();
  out.max_norm = spec.max_norm();
  return out;
}

ServerLimits FromProto(const v1::Limits& limits) {
  ServerLimits out;
  out.max_unary_bytes = static_cast<int64_t>(limits.max_unary_bytes());
  out.max_frame_bytes = static_cast<int64_t>(limits.max_frame_bytes());
  out.max_message_bytes = static_cast<int64_t>(limits.max_message_bytes());
  out.budget_bytes = static_cast<int64_t>(limits.budget_bytes());
  out.max_ids = static_cast<int64_t>(limits.max_ids());
  out.max_bags = static_cast<int64_t>(limits.max_bags());
  out.max_features = limits.max_features();
  out.stall_timeout_ms = limits.stall_timeout_ms();
  return out;
}

TableStats FromProto(const v1::TableStats& stats) {
  TableStats out;
  out.table_namespace = stats.namespace_();
  out.name = stats.name();
  out.table_uid = stats.table_uid();
  out.lookups = stats.lookups();
  out.pushes = stats.pushes();
  out.ids_looked_up = stats.ids_looked_up();
  out.rows_updated = stats.rows_updated();
  out.dropped_ids = stats.dropped_ids();
  out.pruned_ids = stats.pruned_ids();
  out.dropped_rows = stats.dropped_rows();
  out.rows_overflowed = stats.rows_overflowed();
  out.values_saturated = stats.values_saturated();
  out.step = stats.step();
  out.ids_per_rank.assign(stats.ids_per_rank().begin(), stats.ids_per_rank().end());
  return out;
}

}  // namespace

v1::DataType ToProto(DataType value) { return static_cast<v1::DataType>(static_cast<int>(value) + 1); }

v1::IdType ToProto(IdType value) { return value == IdType::kInt32 ? v1::ID_TYPE_INT32 : v1::ID_TYPE_INT64; }

v1::Pooling ToProto(Pooling value) { return static_cast<v1::Pooling>(static_cast<int>(value) + 1); }

v1::ShardingType ToProto(ShardingType value) { return static_cast<v1::ShardingType>(static_cast<int>(value)); }

v1::OutOfRangePolicy ToProto(OutOfRangePolicy value) {
  return value == OutOfRangePolicy::kDrop ? v1::OUT_OF_RANGE_POLICY_DROP : v1::OUT_OF_RANGE_POLICY_ERROR;
}

v1::NonfinitePolicy ToProto(NonfinitePolicy value) {
  return value == NonfinitePolicy::kDropRows ? v1::NONFINITE_POLICY_DROP_ROWS : v1::NONFINITE_POLICY_REFUSE;
}

v1::TableSpec ToProto(const TableSpec& spec, ShardingType sharding, absl::string_view table_namespace) {
  v1::TableSpec out;
  out.set_namespace_(std::string(table_namespace));
  out.set_name(spec.name);
  out.set_row_count(spec.row_count);
  out.set_dim(spec.dim);
  out.set_row_type(ToProto(spec.row_type));
  out.set_id_type(ToProto(spec.id_type));
  *out.mutable_optimizer() = ToProto(spec.optimizer);
  out.mutable_initializer()->set_kind(static_cast<v1::InitializerKind>(static_cast<int>(spec.initializer.kind)));
  out.mutable_initializer()->set_a(spec.initializer.a);
  out.mutable_initializer()->set_b(spec.initializer.b);
  out.mutable_initializer()->set_seed(spec.initializer.seed);
  out.set_nearest_rounding(spec.nearest_rounding);
  out.set_sharding_type(ToProto(sharding));
  return out;
}

DataType FromProto(v1::DataType value) { return OneBehind<DataType>(value, v1::DataType_MAX); }

IdType FromProto(v1::IdType value) { return value == v1::ID_TYPE_INT32 ? IdType::kInt32 : IdType::kInt64; }

ShardingType FromProto(v1::ShardingType value) {
  return v1::ShardingType_IsValid(value) ? static_cast<ShardingType>(static_cast<int>(value)) : ShardingType::kAuto;
}

TableSpec FromProto(const v1::TableSpec& spec) {
  TableSpec out;
  out.name = spec.name();
  out.row_count = spec.row_count();
  out.dim = spec.dim();
  out.row_type = FromProto(spec.row_type());
  out.id_type = FromProto(spec.id_type());
  out.optimizer = FromProto(spec.optimizer());
  const v1::InitializerKind kind = spec.initializer().kind();
  out.initializer.kind = v1::InitializerKind_IsValid(kind) ? static_cast<InitializerKind>(static_cast<int>(kind))
                                                           : InitializerKind::kDefault;
  out.initializer.a = spec.initializer().a();
  out.initializer.b = spec.initializer().b();
  out.initializer.seed = spec.initializer().seed();
  out.nearest_rounding = spec.nearest_rounding();
  return out;
}

TableInfo FromProto(const v1::Table& table) {
  TableInfo out;
  out.table_namespace = table.spec().namespace_().empty() ? "default" : table.spec().namespace_();
  out.spec = FromProto(table.spec());
  out.table_uid = table.table_uid();
  out.placement_version = table.placement_version();
  out.sharding_type = FromProto(table.placement().sharding_type());
  for (const v1::Shard& shard : table.placement().shards()) {
    out.shards.push_back(
        {shard.node(), shard.rank(), shard.row_begin(), shard.row_end(), shard.column_begin(), shard.column_end()});
  }
  out.learning_rate = table.learning_rate();
  out.step = table.step();
  return out;
}

ServerInfo FromProto(const v1::GetServerInfoResponse& response) {
  ServerInfo out;
  out.version = response.version();
  out.incarnation = response.server_incarnation();
  out.cluster_id = response.cluster_id();
  out.node_index = response.node_index();
  out.node_count = response.node_count();
  out.rank_count = response.rank_count();
  out.ranks_per_node.assign(response.ranks_per_node().begin(), response.ranks_per_node().end());
  out.backend = response.backend();
  out.dispatch_target = response.dispatch_target();
  out.limits = FromProto(response.limits());
  out.capabilities.assign(response.capabilities().begin(), response.capabilities().end());
  out.memory_limit_bytes = response.memory_limit_bytes();
  return out;
}

NodeStats FromProto(const v1::GetStatsResponse& response) {
  NodeStats out;
  for (const v1::TableStats& table : response.tables()) out.tables.push_back(FromProto(table));
  for (const v1::CallStats& call : response.calls()) {
    out.calls.push_back(
        {call.method(), call.ok(), call.failed(), call.expired_before_start(), call.p50_us(), call.p99_us()});
  }
  out.version = response.version();
  out.duplicates_suppressed = response.duplicates_suppressed();
  out.sessions_open = response.sessions_open();
  out.budget_used_bytes = response.budget_used_bytes();
  out.budget_refused = response.budget_refused();
  out.uptime_ms = response.uptime_ms();
  out.collective_bytes = response.collective_bytes();
  out.checksum_failures = response.checksum_failures();
  return out;
}

}  // namespace embps::client
