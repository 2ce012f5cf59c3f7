// Checks of header fields that need no table, shared by both ends.
#pragma once
#include "absl/status/status.h"
#include "embps/v1/embedding.pb.h"

namespace embps::wire {

inline constexpr size_t kSessionIdBytes = 16;
inline constexpr size_t kLookupTokenBytes = 16;
inline constexpr size_t kMaxNameBytes = 128;

// session_id 16 bytes, 1 <= first_incomplete <= sequence. MALFORMED naming the field.
absl::Status CheckMutationId(const v1::MutationId& mutation);

// grad_scale and learning rates finite, rates >= 0, each for a table that the push names, once; lookup_token 0 or 16
// bytes; weight_gradients not asked for; policies known. Called by BatchDecoder::Begin too.
absl::Status CheckPushOptions(const v1::PushGradHeader& header);

// Policies known; session_id 0 or 16 bytes, 16 if a token is wanted. Called by
// BatchDecoder::Begin too.
absl::Status CheckLookupOptions(const v1::LookupHeader& header);

// Enum fields with a default: UNSPECIFIED -> FP32, INT64, ERROR, REFUSE. Unknown values stay as they are.
v1::DataType DataTypeOrDefault(v1::DataType type);
v1::IdType IdTypeOrDefault(v1::IdType type);
v1::OutOfRangePolicy PolicyOrDefault(v1::OutOfRangePolicy policy);
v1::NonfinitePolicy PolicyOrDefault(v1::NonfinitePolicy policy);
// Bytes of one element; 0 for an unknown value.
int DataTypeBytes(v1::DataType type);
int IdTypeBytes(v1::IdType type);

}  // namespace embps::wire
