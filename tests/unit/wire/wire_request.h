// Requests written down by hand, for tests of the codec.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "embps/v1/embedding.pb.h"
#include "tests/fuzz/wire_cases.h"

namespace embps::wire {

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// A feature of one of CaseTable's tables: 1 wide (R 50, D 16, int64), 2 narrow (R 9, D 3, int32), 3 split (R 100, D 1,
// rows [34, 67) here), 4 one (R 1, D 33, int32), 5 empty_here (R 1, D 2, no rows here).
inline v1::Feature FeatureOf(uint64_t table_uid, uint32_t batch_size, v1::Pooling pooling = v1::POOLING_SUM) {
  const TableInfo& table = *CaseTable(table_uid);
  v1::Feature feature;
  feature.set_table_uid(table_uid);
  feature.set_placement_version(table.placement_version);
  feature.set_batch_size(batch_size);
  feature.set_pooling(pooling);
  feature.set_id_type(table.id_type);
  feature.set_dim(table.dim);
  return feature;
}

// lengths and ids in the width of each feature's table; id_count is their number.
template <class Request>
Request MakeRequest(const std::vector<v1::Feature>& features, const std::vector<int64_t>& lengths,
                    const std::vector<std::vector<int64_t>>& ids) {
  Request request;
  for (size_t f = 0; f < features.size(); ++f) {
    *request.mutable_header()->add_features() = features[f];
    for (int64_t id : ids[f]) {
      const size_t bytes = features[f].id_type() == v1::ID_TYPE_INT32 ? 4 : 8;
      request.mutable_ids()->append(reinterpret_cast<const char*>(&id), bytes);
    }
    request.mutable_header()->set_id_count(request.header().id_count() + ids[f].size());
  }
  request.set_lengths(BytesOf(lengths));
  return request;
}

// Decodes in one frame; the memory lives as long as the process.
template <class Request>
absl::StatusOr<std::shared_ptr<DecodedBatch>> DecodeOnce(const Request& request,
                                                         std::shared_ptr<const DecodedBatch> kept = nullptr) {
  static Random random(3);
  static std::vector<std::unique_ptr<GuardedMemory>> memory;
  memory.push_back(std::make_unique<GuardedMemory>());
  if constexpr (std::is_same_v<Request, v1::PushGradRequest>) {
    return Decode(request, 1, random, memory.back().get(), kept);
  } else {
    return Decode(request, 1, random, memory.back().get());
  }
}

template <class T>
std::vector<T> ToVector(const T* data, int64_t count) {
  return std::vector<T>(data, data + count);
}

}  // namespace embps::wire
