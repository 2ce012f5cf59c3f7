#include "embps/error.h"

#include "proto/base/error.h"

namespace embps {
inline namespace sdk {

std::string ErrorReason(const absl::Status& status) { return std::string(ReasonName(ReasonOf(status))); }

std::vector<std::pair<std::string, std::string>> ErrorDetails(const absl::Status& status) { return MetadataOf(status); }

std::string ErrorDetail(const absl::Status& status, absl::string_view key) { return MetadataValue(status, key); }

}  // namespace sdk
}  // namespace embps
