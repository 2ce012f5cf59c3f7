// A shard server in plain loops: whole tables in memory, requests read with the generated parser, SGD with learning
// rate 1 so that integer-valued gradients are exact. It checks that the client routed right and answers in shuffled
// frames.
#pragma once
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "embps/v1/embedding.pb.h"
#include "embps/v1/stats.pb.h"
#include "embps/v1/table.pb.h"
#include "proto/plan/cluster.h"
#include "proto/plan/table_layout.h"

namespace embps::client {

// Initial value of every fake table: small integers, distinct for neighbours.
inline float InitialValue(int64_t row, int64_t column) { return static_cast<float>((row * 7 + column * 3) % 101 - 50); }

// Not thread-safe; FakeCluster locks it.
class FakeServer {
 public:
  struct Table {
    v1::Table stored;
    plan::TableLayout layout;
    std::vector<float> rows;  // [R, D]; only this node's part is ever read or written
  };

  FakeServer(int node, plan::Cluster cluster, std::string cluster_id, uint64_t incarnation);

  // All request messages of one call -> all reply messages.
  absl::StatusOr<std::vector<std::string>> Handle(const std::string& method, const std::vector<std::string>& requests);

  // Forgets everything, as a restart does.
  void Restart();
  void EndSessions() { sessions_.clear(); }
  void ForgetTokens() { tokens_.clear(); }
  void BumpPlacementVersion(const std::string& name);
  Table* Find(const std::string& name);

  uint64_t incarnation() const { return incarnation_; }
  v1::Limits limits;
  int64_t pushes_applied = 0;
  int64_t duplicates = 0;
  std::vector<v1::MutationId> mutations;         // of every PushGrad that arrived
  std::vector<v1::PushGradHeader> push_headers;  // applied or not
  std::vector<v1::LookupHeader> lookup_headers;
  std::map<std::string, int> calls;  // by method

 private:
  struct Applied {
    uint64_t digest = 0;
    v1::PushGradResponse response;
  };
  // What a lookup or push sent, merged over frames.
  struct Arrays {
    std::string lengths, ids, weights, bag_sizes, grads;
  };
  struct Bag {
    std::vector<int64_t> ids;
    std::vector<float> weights;
    int64_t divisor = 1;
  };
  // [features][bags]
  using Bags = std::vector<std::vector<Bag>>;

  absl::StatusOr<Bags> Decode(const google::protobuf::RepeatedPtrField<v1::Feature>& features, bool weighted,
                              const Arrays& arrays, v1::OutOfRangePolicy policy, uint64_t* dropped, uint64_t* pruned);
  absl::Status CheckIncarnation(uint64_t incarnation) const;
  absl::StatusOr<Table*> CheckFeature(const v1::Feature& feature);

  template <class Request, class Response>
  absl::StatusOr<std::vector<std::string>> Lookup(const std::vector<std::string>& requests);
  template <class Request, class Response>
  absl::StatusOr<std::vector<std::string>> PushGrad(const std::vector<std::string>& requests);
  absl::Status Apply(const v1::PushGradHeader& header, const Arrays& arrays, v1::PushGradResponse* response);
  absl::StatusOr<std::vector<std::string>> CreateTables(const std::string& request);
  absl::StatusOr<std::vector<std::string>> ReadRows(const std::string& request);
  absl::StatusOr<std::vector<std::string>> WriteRows(const std::string& request);
  // Columns of the table that this node answers for, ascending.
  std::vector<int32_t> ColumnsOf(const Table& table) const;

  const int node_;
  const plan::Cluster cluster_;
  const std::string cluster_id_;
  uint64_t incarnation_;
  uint64_t next_uid_ = 1000;
  uint64_t version_ = 0;
  std::map<std::string, Table> tables_;  // by name
  std::map<std::string, std::map<uint64_t, Applied>> sessions_;
  std::map<std::string, std::pair<Bags, v1::LookupHeader>> tokens_;
  std::mt19937 random_{7};
};

}  // namespace embps::client
