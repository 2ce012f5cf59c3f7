#include "server/table/table.h"

#include <utility>

#include "proto/plan/table_spec.h"

namespace embps {

Table::Table(Parts parts, plan::TableLayout layout, int node)
    : parts_(std::move(parts)),
      layout_(std::move(layout)),
      node_(node),
      name_(plan::QualifiedName(parts_.spec)),
      node_dim_(layout_.DimOf(node)),
      node_rows_(layout_.RowsOf(node)),
      learning_rate_(parts_.spec.optimizer().learning_rate()) {}

int64_t Table::bytes() const {
  int64_t bytes = 0;
  for (const auto& rank : parts_.shards) {
    for (const auto& shard : rank) bytes += shard->bytes();
  }
  return bytes;
}

v1::Table Table::ToProto() const {
  v1::Table out;
  out.set_table_uid(uid());
  out.set_placement_version(placement_version());
  *out.mutable_spec() = spec();
  *out.mutable_placement() = placement();
  out.set_learning_rate(learning_rate());
  out.set_step(step());
  return out;
}

}  // namespace embps
