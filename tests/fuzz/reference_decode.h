// The oracle of the batch decoder: whole messages, plain loops, vectors. Shares only TableInfo and limits with it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "embps/v1/embedding.pb.h"
#include "proto/wire/batch_layout.h"

namespace embps::wire {

struct ReferenceTable {
  uint64_t table_uid = 0;
  std::vector<int32_t> features;
  std::vector<int64_t> offsets, ids, divisors;  // divisors empty without MEAN
  std::vector<float> weights, grads;
};

struct ReferenceFeature {
  int64_t slot_begin = 0, slot_count = 0, id_begin = 0, id_count = 0;
};

struct ReferenceBatch {
  std::vector<ReferenceTable> tables;
  std::vector<ReferenceFeature> features;
  std::vector<int64_t> lengths;
  int64_t dropped_ids = 0, pruned_ids = 0, marked_ids = 0, dropped_rows = 0;
};

// An error carries the right reason; its text is not modelled.
absl::StatusOr<ReferenceBatch> ReferenceDecode(const v1::LookupRequest& request, const TableResolver& resolver,
                                               const DecodeLimits& limits);
absl::StatusOr<ReferenceBatch> ReferenceDecode(const v1::PushGradRequest& request, const TableResolver& resolver,
                                               const DecodeLimits& limits);

}  // namespace embps::wire
