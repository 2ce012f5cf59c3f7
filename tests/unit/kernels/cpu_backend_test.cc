#include "kernels/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/policy.h"
#include "proto/base/error.h"

namespace embps::kernels::cpu {
namespace {

TEST(CpuBackendTest, TablesBeyondTheLimitAreRefusedNamingAskedUsedAndLimit) {
  CpuBackendOptions options;
  options.table_memory_limit_bytes = 1000;
  const auto backend = NewCpuBackend(options);
  auto first = backend->AllocateTable(600);
  ASSERT_TRUE(first.ok());
  const auto refused = backend->AllocateTable(401);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kMemoryFull);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MetadataValue(refused.status(), "asked_bytes"), "401");
  EXPECT_EQ(MetadataValue(refused.status(), "used_bytes"), "600");
  EXPECT_EQ(MetadataValue(refused.status(), "limit_bytes"), "1000");
  EXPECT_TRUE(backend->AllocateTable(400).ok());
  { const Buffer freed = *std::move(first); }
  EXPECT_TRUE(backend->AllocateTable(1000).ok()) << "freed memory counts no longer";
  EXPECT_FALSE(backend->AllocateTable(int64_t{1} << 62).ok());
}

TEST(CpuBackendTest, WhatTheSystemCannotGiveIsMemoryFull) {
  const auto refused = NewCpuBackend()->AllocateTable(int64_t{1} << 61);
  EXPECT_EQ(ReasonOf(refused.status()), Reason::kMemoryFull);
}

TEST(CpuBackendTest, OptionsListAllFaultsAtOnce) {
  CpuBackendOptions options;
  EXPECT_TRUE(options.Validate().ok());
  options.table_memory_limit_bytes = -1;
  options.scratch_retained_bytes = -1;
  options.dispatch_target = "MMX";
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"table_memory_limit_bytes", "scratch_retained_bytes", "MMX"}) {
    EXPECT_NE(status.message().find(part), absl::string_view::npos) << part;
  }
}

TEST(CpuBackendTest, NamesItselfAndItsDispatchTarget) {
  for (const std::string& target : DispatchTargets()) {
    CpuBackendOptions options;
    options.dispatch_target = target;
    EXPECT_EQ(NewCpuBackend(options)->dispatch_target(), target);
  }
  const auto backend = NewCpuBackend();
  EXPECT_EQ(backend->name(), "cpu");
  EXPECT_EQ(backend->dispatch_target(), DispatchTargets().front()) << "the best unless told otherwise";
}

TEST(DispatchTest, RefusesTargetsThatAreNotThere) {
  const std::string before = CurrentDispatchTarget();
  EXPECT_FALSE(ForceDispatchTarget("SVE"));
  EXPECT_EQ(CurrentDispatchTarget(), before);
}

TEST(MemoryTest, MappingsAreAlignedToHugePages) {
  for (const int64_t bytes : {int64_t{1}, kHugePageBytes, kHugePageBytes + 1, 5 * kHugePageBytes}) {
    for (const bool huge_pages : {true, false}) {
      auto* const data = static_cast<char*>(MapPages(bytes, huge_pages));
      ASSERT_NE(data, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kHugePageBytes, 0u);
      EXPECT_EQ(data[0], 0);
      data[bytes - 1] = 1;
      UnmapPages(data, bytes);
    }
  }
  EXPECT_EQ(MapPages(INT64_MAX, true), nullptr);
}

TEST(PolicyTest, MayBeReplaced) {
  const CpuPolicy before = Policy();
  EXPECT_GT(before.lookup_ahead_rows, 0);
  CpuPolicy changed = before;
  changed.lookup_ahead_rows = 3;
  SetPolicy(changed);
  EXPECT_EQ(Policy().lookup_ahead_rows, 3);
  SetPolicy(before);
}

}  // namespace
}  // namespace embps::kernels::cpu
