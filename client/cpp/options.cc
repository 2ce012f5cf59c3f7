#include "embps/options.h"

#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace embps {
inline namespace sdk {
namespace {

constexpr size_t kMaxNameBytes = 128;

void CheckPositive(absl::string_view field, int64_t value, std::vector<std::string>& faults) {
  if (value <= 0) faults.push_back(absl::StrCat(field, ": ", value, ", must be > 0"));
}

void CheckRetry(const RetryPolicy& retry, std::vector<std::string>& faults) {
  CheckPositive("retry.initial_backoff_ms", retry.initial_backoff_ms, faults);
  if (retry.max_backoff_ms < retry.initial_backoff_ms) {
    faults.push_back(absl::StrCat("retry.max_backoff_ms: ", retry.max_backoff_ms, ", less than initial_backoff_ms ",
                                  retry.initial_backoff_ms));
  }
  if (!(retry.multiplier >= 1.0) || std::isinf(retry.multiplier)) {
    faults.push_back(absl::StrCat("retry.multiplier: ", retry.multiplier, ", must be >= 1"));
  }
  if (!(retry.jitter >= 0.0 && retry.jitter < 1.0)) {
    faults.push_back(absl::StrCat("retry.jitter: ", retry.jitter, ", must be in [0, 1)"));
  }
  if (retry.max_attempts < 0) faults.push_back("retry.max_attempts: must be >= 0");
}

}  // namespace

absl::Status ClientOptions::Validate() const {
  std::vector<std::string> faults;
  if (nodes.empty()) faults.push_back("nodes: empty, name every node of the cluster");
  absl::flat_hash_set<std::string> seen;
  for (const std::string& node : nodes) {
    if (node.empty()) faults.push_back("nodes: an endpoint is empty");
    if (!seen.insert(node).second) faults.push_back(absl::StrCat("nodes: ", node, " is named twice"));
  }
  if (table_namespace.size() > kMaxNameBytes) faults.push_back("table_namespace: more than 128 bytes");
  if (client_name.size() > kMaxNameBytes) faults.push_back("client_name: more than 128 bytes");
  CheckPositive("connect_timeout_ms", connect_timeout_ms, faults);
  CheckPositive("lookup_timeout_ms", lookup_timeout_ms, faults);
  CheckPositive("push_timeout_ms", push_timeout_ms, faults);
  CheckPositive("control_timeout_ms", control_timeout_ms, faults);
  CheckPositive("max_pushes_in_flight", max_pushes_in_flight, faults);
  if (channels_per_node < 1 || channels_per_node > 64) {
    faults.push_back(absl::StrCat("channels_per_node: ", channels_per_node, ", must be 1 to 64"));
  }
  if (keepalive_ms < 0) faults.push_back("keepalive_ms: must be >= 0");
  if (keepalive_ms > 0) CheckPositive("keepalive_timeout_ms", keepalive_timeout_ms, faults);
  if (streaming_store_bytes < 0) faults.push_back("streaming_store_bytes: must be >= 0");
  CheckRetry(retry, faults);
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("client options: ", absl::StrJoin(faults, "; ")));
}

}  // namespace sdk
}  // namespace embps
