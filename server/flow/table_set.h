// The tables that a request names, each looked up once and held until the flow is over.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "embps/v1/embedding.pb.h"
#include "embps/v1/stats.pb.h"
#include "proto/plan/node_route.h"
#include "proto/wire/batch_decoder.h"
#include "server/table/shard_store.h"

namespace embps {

using FeatureList = google::protobuf::RepeatedPtrField<v1::Feature>;

class TableSet {
 public:
  // Unknown tables are left for the decoder to name. BAD_JAGGED_LAYOUT for a table that has no shard on this node and
  // for a MEAN feature of a row-split table without split_bags.
  absl::Status Find(const ShardStore& store, const FeatureList& features);
  // Whether a table's columns lie on several nodes. The node then answers, and takes gradients of, its own columns
  // only.
  bool any_narrow() const { return any_narrow_; }
  // A request says the table's D; for the decoder it becomes the node's columns. DIM_MISMATCH if it does not say D.
  absl::Status Narrow(FeatureList& features) const;

  // Valid as long as this object.
  wire::TableResolver resolver() const;

  // Orders tables as the decoded batch does. Once, after the decoder's Begin.
  void Order(const wire::DecodedBatch& layout);
  int size() const { return static_cast<int>(tables_.size()); }
  Table& operator[](int32_t t) const { return *tables_[static_cast<size_t>(t)]; }
  absl::Span<const plan::NodeRoute> routes() const { return routes_; }

 private:
  struct Entry {
    std::shared_ptr<Table> table;
    wire::TableInfo info;
  };
  std::map<uint64_t, Entry> by_uid_;
  bool any_narrow_ = false;
  std::vector<std::shared_ptr<Table>> tables_;  // [T]
  std::vector<plan::NodeRoute> routes_;         // [T]
};

// Limits of one call from what the server advertises.
wire::DecodeLimits DecodeLimitsOf(const v1::Limits& limits);

}  // namespace embps
