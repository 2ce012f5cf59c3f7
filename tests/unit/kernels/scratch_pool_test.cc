#include "kernels/cpu/scratch_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace embps::kernels::cpu {
namespace {

TEST(ScratchPoolTest, BlocksHoldWhatWasAskedForAndWasteLittle) {
  for (int64_t bytes = 0; bytes < 5000; ++bytes) {
    EXPECT_GE(ScratchPool::BlockBytes(bytes), bytes);
    EXPECT_LE(ScratchPool::BlockBytes(bytes), std::max<int64_t>(256, 2 * bytes));
  }
  for (int64_t bytes = 65536; bytes < int64_t{1} << 40; bytes += bytes / 7 + 1) {
    EXPECT_GE(ScratchPool::BlockBytes(bytes), bytes);
    EXPECT_LE(ScratchPool::BlockBytes(bytes), bytes + bytes / 4 + 1);
    EXPECT_EQ(ScratchPool::BlockBytes(bytes) % 64, 0);
    EXPECT_EQ(ScratchPool::BlockBytes(ScratchPool::BlockBytes(bytes)), ScratchPool::BlockBytes(bytes));
  }
}

TEST(ScratchPoolTest, HandsOutTheBlockThatWasFreedLast) {
  ScratchPool pool;
  void* first = nullptr;
  void* second = nullptr;
  {
    const auto a = pool.Allocate(MemoryKind::kDevice, 100000);
    first = a->data();
    const auto b = pool.Allocate(MemoryKind::kDevice, 100000);
    second = b->data();
    EXPECT_NE(first, second);
  }  // b is freed before a
  EXPECT_EQ(pool.Allocate(MemoryKind::kDevice, 99000)->data(), first);
  EXPECT_EQ(pool.live_bytes(), 0);
}

TEST(ScratchPoolTest, LargeBlocksBeyondTheRetainedBytesGoBack) {
  constexpr int64_t kBlock = int64_t{8} << 20;
  ScratchPool pool({.huge_pages = false, .retained_bytes = 2 * kBlock});
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 4; ++i) buffers.push_back(*pool.Allocate(MemoryKind::kDevice, kBlock));
    EXPECT_EQ(pool.mapped_bytes(), 4 * kBlock);
    EXPECT_EQ(pool.live_bytes(), 4 * kBlock);
  }
  EXPECT_EQ(pool.live_bytes(), 0);
  EXPECT_EQ(pool.mapped_bytes(), 2 * kBlock);
  const auto again = pool.Allocate(MemoryKind::kDevice, kBlock);
  std::memset(again->data(), 1, kBlock);
  EXPECT_EQ(pool.mapped_bytes(), 2 * kBlock);
}

TEST(ScratchPoolTest, WhatTheSystemCannotGiveIsAnErrorNamingTheSize) {
  ScratchPool pool;
  const auto buffer = pool.Allocate(MemoryKind::kDevice, int64_t{1} << 60);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find(std::to_string(int64_t{1} << 60)), absl::string_view::npos);
}

TEST(ScratchPoolTest, MemoryOutlivesThePool) {
  std::optional<ScratchPool> pool(std::in_place);
  auto buffer = pool->Allocate(MemoryKind::kPinnedHost, 4 << 20);
  pool.reset();
  std::memset(buffer->data(), 7, 4 << 20);
}

TEST(ScratchPoolTest, ThreadsShareIt) {
  ScratchPool pool({.huge_pages = false, .retained_bytes = 1 << 20});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      std::vector<std::optional<Buffer>> held(16);
      for (int i = 0; i < 2000; ++i) {
        const int64_t bytes = (i * 7919 + t * 131) % 200000;
        std::optional<Buffer>& slot = held[i % 16];
        if (slot.has_value() && slot->bytes() >= 4) {
          ASSERT_EQ(*slot->as<int>(), t);
        }
        slot.emplace(*pool.Allocate(MemoryKind::kDevice, bytes));
        if (bytes >= 4) *slot->as<int>() = t;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(pool.live_bytes(), 0);
}

}  // namespace
}  // namespace embps::kernels::cpu
