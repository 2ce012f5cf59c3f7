#include "server/output/block_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace embps {
namespace {

std::string Text(const BlockPlan& block) {
  std::string out;
  for (const v1::Run& run : block.runs) {
    out += std::to_string(run.first_feature()) + "+" + std::to_string(run.feature_count()) + ":" +
           std::to_string(run.row_begin()) + "+" + std::to_string(run.row_count()) + "x" + std::to_string(run.dim()) +
           " ";
  }
  return out + std::to_string(block.bytes);
}

TEST(BlockPlan, WholeFeaturesShareBlocksAndEqualNeighboursARun) {
  const auto blocks = PlanBlocks({{{4, 2}, {4, 2}, {4, 3}, {0, 9}, {5, 3}}}, 4, 120);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(Text(blocks[0]), "0+2:0+4x2 2+1:0+4x3 112");
  EXPECT_EQ(Text(blocks[1]), "4+1:0+5x3 60");
  EXPECT_EQ(blocks[1].byte_begin, 112);
}

TEST(BlockPlan, ALargeFeatureIsCutByRows) {
  const auto blocks = PlanBlocks({{{10, 4}}}, 2, 32);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(Text(blocks[0]), "0+1:0+4x4 32");
  EXPECT_EQ(Text(blocks[2]), "0+1:8+2x4 16");
  // A row wider than a block is a block.
  EXPECT_EQ(PlanBlocks({{{3, 100}}}, 4, 32).size(), 3u);
}

TEST(BlockPlan, APartIsNotContinuedByAWholeFeatureOfItsShape) {
  const auto blocks = PlanBlocks({{{5, 4}, {1, 4}, {1, 4}}}, 4, 64);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(Text(blocks[1]), "0+1:4+1x4 1+2:0+1x4 48");
}

TEST(BlockPlan, EveryRowStandsInOneRunInOrder) {
  std::mt19937_64 engine(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<ReplyFeature> features(engine() % 12);
    for (ReplyFeature& feature : features)
      feature = {static_cast<int64_t>(engine() % 20), 1 + static_cast<int>(engine() % 9)};
    const int64_t block_bytes = 16 + static_cast<int64_t>(engine() % 200);
    size_t f = 0;
    int64_t row = 0, at = 0;
    const auto skip_empty = [&] {
      while (f < features.size() && row == features[f].row_count) ++f, row = 0;
    };
    for (const BlockPlan& block : PlanBlocks(features, 4, block_bytes)) {
      EXPECT_EQ(block.byte_begin, at);
      int64_t bytes = 0;
      for (const v1::Run& run : block.runs) {
        for (uint32_t i = 0; i < run.feature_count(); ++i) {
          skip_empty();
          ASSERT_LT(f, features.size());
          EXPECT_EQ(run.first_feature() + i, f);
          EXPECT_EQ(run.row_begin(), static_cast<uint64_t>(row));
          EXPECT_EQ(run.dim(), static_cast<uint32_t>(features[f].dim));
          row += static_cast<int64_t>(run.row_count());
          bytes += static_cast<int64_t>(run.row_count()) * run.dim() * 4;
        }
      }
      EXPECT_EQ(block.bytes, bytes);
      EXPECT_GT(bytes, 0);
      EXPECT_LE(bytes, std::max<int64_t>(block_bytes, 9 * 4));
      at += bytes;
    }
    skip_empty();
    EXPECT_EQ(f, features.size());
  }
}

TEST(BlockPlan, WishesAreKeptWithinBounds) {
  EXPECT_EQ(BlockBytes(0, 1 << 20, 1 << 20), 1 << 20);
  EXPECT_EQ(BlockBytes(1, 1 << 20, 1 << 20), kMinFrameBytes);
  EXPECT_EQ(BlockBytes(50'000, 1 << 20, 1 << 20), 50'000);
  EXPECT_EQ(BlockBytes(5 << 20, 1 << 20, 1 << 20), 1 << 20);
}

}  // namespace
}  // namespace embps
