#include "server/flow/core.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/error.h"
#include "server/output/block_plan.h"

namespace embps {

v1::Limits DefaultLimits() {
  v1::Limits limits;
  limits.set_max_unary_bytes(2 << 20);
  limits.set_max_frame_bytes(1 << 20);
  limits.set_max_message_bytes(4 << 20);
  limits.set_budget_bytes(uint64_t{1} << 30);
  limits.set_max_ids(uint64_t{1} << 28);
  limits.set_max_bags(uint64_t{1} << 24);
  limits.set_max_features(4096);
  limits.set_stall_timeout_ms(10'000);
  return limits;
}

absl::Status FlowOptions::Validate() const {
  std::vector<std::string> faults;
  if (node_index < 0 || static_cast<size_t>(node_index) >= ranks_per_node.size()) {
    faults.push_back(absl::StrCat("node_index: ", node_index, " is not one of ", ranks_per_node.size(), " nodes"));
  }
  for (const int ranks : ranks_per_node) {
    if (ranks < 1) faults.push_back(absl::StrCat("ranks_per_node: ", ranks, " is not >= 1"));
  }
  const auto max_frame = static_cast<int64_t>(limits.max_frame_bytes());
  if (max_frame < kMinFrameBytes) {
    faults.push_back(absl::StrCat("max_frame_bytes: ", max_frame, " is below ", kMinFrameBytes));
  }
  if (frame_bytes < kMinFrameBytes || frame_bytes > max_frame) {
    faults.push_back(absl::StrCat("frame_bytes: ", frame_bytes, " is not in [", kMinFrameBytes, ", ", max_frame, "]"));
  }
  if (token_bytes < 0) faults.push_back(absl::StrCat("token_bytes: ", token_bytes, " is negative"));
  if (token_ttl_ms < 1) faults.push_back(absl::StrCat("token_ttl_ms: ", token_ttl_ms, " is not >= 1"));
  if (memory_limit_bytes < 0)
    faults.push_back(absl::StrCat("memory_limit_bytes: ", memory_limit_bytes, " is negative"));
  if (init_piece_bytes < 1) faults.push_back(absl::StrCat("init_piece_bytes: ", init_piece_bytes, " is not >= 1"));
  if (faults.empty()) return absl::OkStatus();
  return MakeError(Reason::kMalformed, absl::StrJoin(faults, "; "));
}

}  // namespace embps
