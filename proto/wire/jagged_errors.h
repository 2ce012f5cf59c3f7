// The texts of errors about batches, the same whether the client's check or the server's decoder finds the fault.
// Internal to proto/wire.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/wire/jagged_check.h"

namespace embps::wire {

// feature 2 "user" (table "default/users")
std::string Describe(const FeatureLabel& label);

// `field` holds `value` at `entry`, which is bag `bag` of the feature; negative, or more than there are ids.
absl::Status BadLength(const FeatureLabel& label, int64_t entry, int64_t bag, int64_t value, int64_t id_count);
absl::Status BadLengthSum(int64_t sum, int64_t id_count);
absl::Status BadBagSize(const FeatureLabel& label, int64_t entry, int64_t bag, int64_t value, int64_t length);
absl::Status BadWeight(const FeatureLabel& label, int64_t entry, float value);

struct IdFault {
  int64_t first_bad_id = 0;
  int64_t position = 0;  // in the ids of the whole request
  int64_t count = 0;     // in the whole request
};
absl::Status IdOutOfRange(const FeatureLabel& label, const IdFault& fault, int64_t row_count);
// A row of the table that this node's shards do not hold.
absl::Status MisroutedId(const FeatureLabel& label, const IdFault& fault, int64_t row_begin, int64_t row_end);
absl::Status NonfiniteGradient(const FeatureLabel& label, int64_t first_row, int64_t count);

// `field`: `sent` items or bytes where `expected` are right; `why` says where the number comes from.
absl::Status BadSize(absl::string_view field, int64_t sent, int64_t expected, absl::string_view unit,
                     absl::string_view why);

}  // namespace embps::wire
