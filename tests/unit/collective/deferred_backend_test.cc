// The DeferredBackend keeps its own promises: nothing runs early, and an early read is poison.
#include "tests/support/deferred_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "kernels/ref/ref_backend.h"
#include "server/collective/in_process.h"
#include "tests/support/rank_threads.h"

namespace embps::testing {
namespace {

class DeferredBackendTest : public ::testing::TestWithParam<DeferredOptions::RunOn> {
 protected:
  std::unique_ptr<kernels::Backend> backend_ = NewDeferredBackend(kernels::ref::NewRefBackend(), {GetParam()});
  std::unique_ptr<kernels::Stream> stream_ = backend_->NewStream();
};

TEST_P(DeferredBackendTest, RunsNothingBeforeOnCompleteAndEverythingByIt) {
  const int64_t lengths[3] = {1, 2, 3};
  int64_t offsets[4] = {9, 9, 9, 9};
  {
    std::vector<kernels::OffsetsTask> tasks = {{lengths, 3, offsets}};
    backend_->Offsets(tasks, *stream_);
    tasks[0] = {};  // the array is the caller's again
  }
  bool enqueued_ran = false;
  stream_->Enqueue([&] {
    enqueued_ran = true;
    EXPECT_EQ(offsets[3], 6);
    return absl::InvalidArgumentError("kept");
  });
  for (const int64_t value : offsets) EXPECT_GT(value, int64_t{1} << 60);  // poison
  EXPECT_FALSE(enqueued_ran);
  EXPECT_EQ(Complete(*stream_), absl::InvalidArgumentError("kept"));
  EXPECT_TRUE(enqueued_ran);
  EXPECT_EQ(offsets[0], 0);
  EXPECT_EQ(offsets[2], 3);
  EXPECT_TRUE(Complete(*stream_).ok());  // the error was reported once
}

TEST_P(DeferredBackendTest, FloatOutputsAreNanUntilComplete) {
  float rows[2] = {1.5f, 2.5f};
  const int64_t ids[2] = {1, 0};
  float out[3] = {7, 7, 7};
  kernels::SequenceLookupTask task;
  task.table = {.rows = rows, .row_count = 2, .dim = 1};
  task.ids = ids;
  task.id_count = 2;
  task.out = out;
  task.out_stride = 1;
  backend_->SequenceLookup({task}, *stream_);
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  EXPECT_EQ(out[2], 7);
  EXPECT_TRUE(Complete(*stream_).ok());
  EXPECT_EQ(out[0], 2.5f);
  EXPECT_EQ(out[1], 1.5f);
}

TEST_P(DeferredBackendTest, PointerArraysInsideTasksAreCopied) {
  const float first[2] = {1, 2}, second[2] = {10, 20};
  float out[2] = {};
  {
    const float* parts[2] = {first, second};
    kernels::ReducePartialsTask task;
    task.parts = parts;
    task.part_count = 2;
    task.bag_count = 1;
    task.dim = 2;
    task.out = out;
    task.out_stride = 2;
    backend_->ReducePartials({task}, *stream_);
    parts[0] = parts[1] = nullptr;
  }
  const int64_t offsets[2] = {0, 3}, ids[3] = {5, 1, 4};
  int64_t lengths[2] = {}, low[1] = {}, high[2] = {};
  {
    kernels::Bucket buckets[2] = {{&lengths[0], low, nullptr, nullptr, 1}, {&lengths[1], high, nullptr, nullptr, 2}};
    kernels::BucketizeTask task;
    task.offsets = offsets;
    task.ids = ids;
    task.bag_count = 1;
    task.block_rows = 3;
    task.buckets = buckets;
    task.bucket_count = 2;
    backend_->Bucketize({task}, *stream_);
    buckets[0] = buckets[1] = {};
  }
  EXPECT_TRUE(Complete(*stream_).ok());
  EXPECT_EQ(out[0], 11);
  EXPECT_EQ(out[1], 22);
  EXPECT_EQ(low[0], 1);
  EXPECT_EQ(high[0], 2);
  EXPECT_EQ(high[1], 1);
}

TEST_P(DeferredBackendTest, ScratchIsPoisonedWhenAllocated) {
  const auto scratch = backend_->AllocateScratch(kernels::MemoryKind::kPinnedHost, 16);
  ASSERT_TRUE(scratch.ok());
  EXPECT_EQ(scratch->bytes(), 16);
  EXPECT_GT(scratch->as<int64_t>()[1], int64_t{1} << 60);
  EXPECT_GT(scratch->as<float>()[0], 1e38f);
}

// Each rank's operations meet in the collective although nothing ran while they were enqueued.
TEST_P(DeferredBackendTest, CollectivesOfSeveralRanksMeetAtCompletion) {
  const Collectives ranks = NewInProcessCollectives(3);
  const auto statuses = OnEveryRank(
      ranks,
      [&](Collective& collective, kernels::Stream& stream) {
        const int me = collective.rank();
        for (int round = 0; round < 20; ++round) {
          const int64_t lengths[1] = {me + round};
          int64_t offsets[2] = {};
          int64_t received[3] = {-1, -1, -1};
          const kernels::OffsetsTask task{lengths, 1, offsets};
          backend_->Offsets({task}, stream);
          collective.AllGather(&offsets[1], 8, {{0, &received[0], 8}, {1, &received[1], 8}, {2, &received[2], 8}},
                               stream);
          ASSERT_EQ(received[me], -1);
          ASSERT_TRUE(Complete(stream).ok());
          for (int r = 0; r < 3; ++r) ASSERT_EQ(received[r], r + round);
        }
      },
      [&] { return backend_->NewStream(); });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(RunOn, DeferredBackendTest,
                         ::testing::Values(DeferredOptions::RunOn::kOwnThread, DeferredOptions::RunOn::kCaller),
                         [](const auto& info) {
                           return info.param == DeferredOptions::RunOn::kCaller ? "Caller" : "OwnThread";
                         });

}  // namespace
}  // namespace embps::testing
