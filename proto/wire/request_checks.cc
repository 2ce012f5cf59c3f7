#include "proto/wire/request_checks.h"

#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps::wire {
namespace {

absl::Status Malformed(absl::string_view message) { return MakeError(Reason::kMalformed, message); }

template <class Policy>
absl::Status CheckKnown(absl::string_view field, bool known, Policy value) {
  if (known) return absl::OkStatus();
  return Malformed(absl::StrCat("header.", field, ": unknown value ", static_cast<int>(value)));
}

absl::Status CheckLearningRates(const v1::PushGradHeader& header) {
  if (header.learning_rates().empty()) return absl::OkStatus();
  absl::flat_hash_set<uint64_t> named, seen;
  for (const v1::Feature& feature : header.features()) named.insert(feature.table_uid());
  for (int i = 0; i < header.learning_rates_size(); ++i) {
    const v1::PushLearningRate& rate = header.learning_rates(i);
    const std::string field = absl::StrCat("header.learning_rates[", i, "]");
    if (!std::isfinite(rate.learning_rate()) || rate.learning_rate() < 0) {
      return Malformed(absl::StrCat(field, ".learning_rate: ", rate.learning_rate(), " is not a finite value >= 0"));
    }
    if (!named.contains(rate.table_uid())) {
      return Malformed(absl::StrCat(field, ".table_uid: no feature of the push names table ", rate.table_uid()));
    }
    if (!seen.insert(rate.table_uid()).second) {
      return Malformed(absl::StrCat(field, ".table_uid: table ", rate.table_uid(), " has two learning rates"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMutationId(const v1::MutationId& mutation) {
  if (mutation.session_id().size() != kSessionIdBytes) {
    return Malformed(absl::StrCat("mutation.session_id: ", mutation.session_id().size(), " bytes, must be 16"));
  }
  if (mutation.sequence() == 0) return Malformed("mutation.sequence: 0, sequences start at 1");
  if (mutation.first_incomplete() == 0 || mutation.first_incomplete() > mutation.sequence()) {
    return Malformed(absl::StrCat("mutation.first_incomplete: ", mutation.first_incomplete(), " is not in [1, ",
                                  mutation.sequence(), "], the sequence"));
  }
  return absl::OkStatus();
}

absl::Status CheckPushOptions(const v1::PushGradHeader& header) {
  if (header.weight_gradients()) {
    return Malformed("header.weight_gradients: gradients of per-sample weights are not computed in this version");
  }
  if (header.has_grad_scale() && !std::isfinite(header.grad_scale())) {
    return Malformed(absl::StrCat("header.grad_scale: ", header.grad_scale(), " is not finite"));
  }
  if (!header.lookup_token().empty() && header.lookup_token().size() != kLookupTokenBytes) {
    return Malformed(absl::StrCat("header.lookup_token: ", header.lookup_token().size(), " bytes, must be 0 or 16"));
  }
  EMBPS_RETURN_IF_ERROR(CheckKnown("out_of_range_policy", v1::OutOfRangePolicy_IsValid(header.out_of_range_policy()),
                                   header.out_of_range_policy()));
  EMBPS_RETURN_IF_ERROR(CheckKnown("nonfinite_policy", v1::NonfinitePolicy_IsValid(header.nonfinite_policy()),
                                   header.nonfinite_policy()));
  return CheckLearningRates(header);
}

absl::Status CheckLookupOptions(const v1::LookupHeader& header) {
  const size_t session_bytes = header.session_id().size();
  if (session_bytes != 0 && session_bytes != kSessionIdBytes) {
    return Malformed(absl::StrCat("header.session_id: ", session_bytes, " bytes, must be 0 or 16"));
  }
  if (header.want_lookup_token() && session_bytes == 0) {
    return Malformed("header.session_id: missing, want_lookup_token needs one");
  }
  return CheckKnown("out_of_range_policy", v1::OutOfRangePolicy_IsValid(header.out_of_range_policy()),
                    header.out_of_range_policy());
}

v1::DataType DataTypeOrDefault(v1::DataType type) {
  return type == v1::DATA_TYPE_UNSPECIFIED ? v1::DATA_TYPE_FP32 : type;
}
v1::IdType IdTypeOrDefault(v1::IdType type) { return type == v1::ID_TYPE_UNSPECIFIED ? v1::ID_TYPE_INT64 : type; }
v1::OutOfRangePolicy PolicyOrDefault(v1::OutOfRangePolicy policy) {
  return policy == v1::OUT_OF_RANGE_POLICY_UNSPECIFIED ? v1::OUT_OF_RANGE_POLICY_ERROR : policy;
}
v1::NonfinitePolicy PolicyOrDefault(v1::NonfinitePolicy policy) {
  return policy == v1::NONFINITE_POLICY_UNSPECIFIED ? v1::NONFINITE_POLICY_REFUSE : policy;
}

int DataTypeBytes(v1::DataType type) {
  switch (DataTypeOrDefault(type)) {
    case v1::DATA_TYPE_FP32:
      return 4;
    case v1::DATA_TYPE_FP16:
    case v1::DATA_TYPE_BF16:
      return 2;
    default:
      return 0;
  }
}

int IdTypeBytes(v1::IdType type) {
  switch (IdTypeOrDefault(type)) {
    case v1::ID_TYPE_INT32:
      return 4;
    case v1::ID_TYPE_INT64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace embps::wire
