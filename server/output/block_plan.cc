#include "server/output/block_plan.h"

#include <algorithm>

namespace embps {
namespace {

void AddRun(size_t feature, int64_t row_begin, int64_t rows, int32_t dim, std::vector<v1::Run>& runs) {
  v1::Run& run = runs.emplace_back();
  run.set_first_feature(static_cast<uint32_t>(feature));
  run.set_feature_count(1);
  run.set_row_begin(static_cast<uint64_t>(row_begin));
  run.set_row_count(static_cast<uint64_t>(rows));
  run.set_dim(static_cast<uint32_t>(dim));
}

// Whether whole feature `f` continues `run`.
bool Continues(const v1::Run& run, size_t f, const ReplyFeature& feature) {
  return run.first_feature() + run.feature_count() == f && run.row_begin() == 0 &&
         run.row_count() == static_cast<uint64_t>(feature.row_count) && run.dim() == static_cast<uint32_t>(feature.dim);
}

class Planner {
 public:
  Planner(int64_t element_bytes, int64_t block_bytes) : element_bytes_(element_bytes), block_bytes_(block_bytes) {}

  void AddWhole(size_t f, const ReplyFeature& feature, int64_t bytes) {
    if (blocks_.empty() || blocks_.back().bytes + bytes > block_bytes_) Open();
    BlockPlan& block = blocks_.back();
    // A run may only grow by whole features, so the feature before must be whole too.
    if (whole_ && !block.runs.empty() && Continues(block.runs.back(), f, feature)) {
      block.runs.back().set_feature_count(block.runs.back().feature_count() + 1);
    } else {
      AddRun(f, 0, feature.row_count, feature.dim, block.runs);
    }
    whole_ = true;
    block.bytes += bytes;
  }

  void AddInParts(size_t f, const ReplyFeature& feature) {
    const int64_t row_bytes = feature.dim * element_bytes_;
    const int64_t step = std::max<int64_t>(1, block_bytes_ / row_bytes);
    for (int64_t row = 0; row < feature.row_count; row += step) {
      Open();
      const int64_t rows = std::min(step, feature.row_count - row);
      AddRun(f, row, rows, feature.dim, blocks_.back().runs);
      blocks_.back().bytes = rows * row_bytes;
    }
    whole_ = false;
  }

  std::vector<BlockPlan> Take() { return std::move(blocks_); }

 private:
  void Open() {
    const int64_t at = blocks_.empty() ? 0 : blocks_.back().byte_begin + blocks_.back().bytes;
    blocks_.emplace_back().byte_begin = at;
  }

  const int64_t element_bytes_, block_bytes_;
  bool whole_ = false;
  std::vector<BlockPlan> blocks_;
};

}  // namespace

std::vector<BlockPlan> PlanBlocks(absl::Span<const ReplyFeature> features, int64_t element_bytes, int64_t block_bytes) {
  Planner planner(element_bytes, block_bytes);
  for (size_t f = 0; f < features.size(); ++f) {
    const int64_t bytes = features[f].row_count * features[f].dim * element_bytes;
    if (bytes == 0) continue;
    bytes <= block_bytes ? planner.AddWhole(f, features[f], bytes) : planner.AddInParts(f, features[f]);
  }
  return planner.Take();
}

int64_t BlockBytes(uint32_t wished, int64_t default_bytes, int64_t max_bytes) {
  const int64_t bytes = wished > 0 ? int64_t{wished} : default_bytes;
  return std::clamp(bytes, std::min(kMinFrameBytes, max_bytes), max_bytes);
}

}  // namespace embps
