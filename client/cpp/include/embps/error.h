// Why a call failed, beyond its status code. Every absl::Status of this library that comes from a rule of the service
// carries a reason such as "ID_OUT_OF_RANGE" and key-value details such as table, position, row_count.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace embps {
inline namespace sdk {

// UPPER_SNAKE, "" when the status has none (such as a bare DEADLINE_EXCEEDED).
std::string ErrorReason(const absl::Status& status);
std::vector<std::pair<std::string, std::string>> ErrorDetails(const absl::Status& status);
// "" when there is no such key.
std::string ErrorDetail(const absl::Status& status, absl::string_view key);

}  // namespace sdk
}  // namespace embps
