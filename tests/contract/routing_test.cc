// offsets, bucketize, permute, scatter_rows, dedup: equal to the oracle, element for element.
#include <limits>
#include <random>

#include "kernels/ref/ref_backend.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/random_bags.h"

namespace embps::testing {
namespace {

using kernels::Bucket;
using kernels::BucketizeTask;
using kernels::DedupTask;
using kernels::OffsetsTask;
using kernels::PermuteTask;
using kernels::ScatterRowsTask;

template <class Enqueue>
void Execute(kernels::Backend& backend, Enqueue enqueue) {
  ASSERT_TRUE(RunAndWait(backend, enqueue).ok());
}

TEST_P(BackendContract, OffsetsArePrefixSums) {
  for (const int workers : kWorkerCounts) {
    std::vector<GuardedBuffer<int64_t>> lengths, offsets;
    std::vector<OffsetsTask> tasks;
    for (const int64_t count : {0, 1, 2, 5, 1000, 20000}) {
      lengths.emplace_back(count);
      for (int64_t i = 0; i < count; ++i) lengths.back()[i] = i % 4 == 0 ? 0 : i % 11 + (int64_t{1} << 40);
      offsets.emplace_back(count + 1);
      tasks.push_back({lengths.back().data(), count, offsets.back().data()});
    }
    Execute(*Make(workers), [&](kernels::Backend& b, kernels::Stream& s) { b.Offsets(tasks, s); });
    for (size_t t = 0; t < tasks.size(); ++t) {
      int64_t sum = 0;
      ASSERT_EQ(offsets[t][0], 0);
      for (int64_t i = 0; i < tasks[t].count; ++i) {
        sum += lengths[t][i];
        ASSERT_EQ(offsets[t][i + 1], sum);
      }
      ASSERT_TRUE(offsets[t].GuardsIntact());
    }
  }
}

// The arrays of one bucketize task, sized from the input.
struct BucketizeCase {
  BucketizeCase(Bags input, int64_t row_begin, int64_t block_rows, int32_t bucket_count, bool weighted, bool positions)
      : bags(std::move(input)) {
    std::vector<int64_t> counts(bucket_count, 0);
    for (const int64_t id : bags.ids) {
      if (id != -1) counts[(id - row_begin) / block_rows] += 1;
    }
    for (int32_t w = 0; w < bucket_count; ++w) {
      lengths.emplace_back(bags.bag_count());
      ids.emplace_back(counts[w]);
      weights.emplace_back(weighted ? counts[w] : 0);
      sources.emplace_back(positions ? counts[w] : 0);
      buckets.push_back({.lengths = lengths.back().data(),
                         .ids = ids.back().data(),
                         .weights = weighted ? weights.back().data() : nullptr,
                         .positions = positions ? sources.back().data() : nullptr,
                         .count = counts[w]});
    }
    task.offsets = bags.offsets.data();
    task.ids = bags.ids.data();
    if (weighted) task.weights = bags.weights.data();
    task.bag_count = bags.bag_count();
    task.row_begin = row_begin;
    task.block_rows = block_rows;
    task.buckets = buckets.data();
    task.bucket_count = bucket_count;
  }
  Bags bags;
  std::vector<GuardedBuffer<int64_t>> lengths, ids, sources;
  std::vector<GuardedBuffer<float>> weights;
  std::vector<Bucket> buckets;
  BucketizeTask task;
};

void ExpectEqualBuckets(const BucketizeCase& got, const BucketizeCase& wanted) {
  for (size_t w = 0; w < got.buckets.size(); ++w) {
    ASSERT_EQ(got.lengths[w].ToVector(), wanted.lengths[w].ToVector()) << "bucket " << w;
    ASSERT_EQ(got.ids[w].ToVector(), wanted.ids[w].ToVector()) << "bucket " << w;
    ASSERT_EQ(got.weights[w].ToVector(), wanted.weights[w].ToVector()) << "bucket " << w;
    ASSERT_EQ(got.sources[w].ToVector(), wanted.sources[w].ToVector()) << "bucket " << w;
    ASSERT_TRUE(got.lengths[w].GuardsIntact() && got.ids[w].GuardsIntact() && got.weights[w].GuardsIntact() &&
                got.sources[w].GuardsIntact());
  }
}

TEST_P(BackendContract, BucketizeOfTheGoldenTable) {
  // R = 10 over 4 blocks of 3: 0 -> (0, 0), 2 -> (0, 2), 3 -> (1, 0), 9 -> (3, 0).
  Bags bags;
  bags.offsets = {0, 3, 4};
  bags.ids = {0, 9, 3, 2};
  bags.weights = {1, 2, 3, 4};
  BucketizeCase c(bags, 0, 3, 4, true, true);
  Execute(*Make(), [&](kernels::Backend& b, kernels::Stream& s) { b.Bucketize({c.task}, s); });
  using I = std::vector<int64_t>;
  EXPECT_EQ(c.ids[0].ToVector(), (I{0, 2}));
  EXPECT_EQ(c.ids[1].ToVector(), (I{0}));
  EXPECT_EQ(c.ids[2].ToVector(), (I{}));
  EXPECT_EQ(c.ids[3].ToVector(), (I{0}));
  EXPECT_EQ(c.lengths[0].ToVector(), (I{1, 1}));
  EXPECT_EQ(c.lengths[2].ToVector(), (I{0, 0}));
  EXPECT_EQ(c.sources[0].ToVector(), (I{0, 3}));
  EXPECT_EQ(c.weights[3].ToVector(), (std::vector<float>{2}));
}

TEST_P(BackendContract, N7_BucketizeKeepsOrderAndGivesLocalIds) {
  struct Shape {
    int64_t row_begin, block_rows;
    int32_t bucket_count;
  };
  const Shape shapes[] = {{0, 1, 7},           {0, 4, 8},       {0, 13, 3},
                          {1000, 100, 5},      {0, 1 << 20, 1}, {0, int64_t{1} << 33, 4},
                          {77, 2147483647, 2}, {0, 3, 300}};
  int seed = 0;
  for (const Shape& shape : shapes) {
    for (const bool weighted : {false, true}) {
      for (const bool positions : {false, true}) {
        Bags bags = MakeBags(AwkwardLengths(), shape.block_rows * shape.bucket_count, ++seed);
        for (int64_t& id : bags.ids) id += shape.row_begin;
        for (size_t i = 5; i < bags.ids.size(); i += 17) bags.ids[i] = -1;
        BucketizeCase wanted(bags, shape.row_begin, shape.block_rows, shape.bucket_count, weighted, positions);
        Execute(*kernels::ref::NewRefBackend(),
                [&](kernels::Backend& b, kernels::Stream& s) { b.Bucketize({wanted.task}, s); });
        for (const int workers : kWorkerCounts) {
          BucketizeCase got(bags, shape.row_begin, shape.block_rows, shape.bucket_count, weighted, positions);
          Execute(*Make(workers), [&](kernels::Backend& b, kernels::Stream& s) { b.Bucketize({got.task}, s); });
          ExpectEqualBuckets(got, wanted);
        }
      }
    }
  }
}

TEST_P(BackendContract, BucketizeOfAPartReadsItsOwnOffsetsOnly) {
  // A home part: the middle two bags of four, offsets starting above 0.
  Bags bags;
  bags.offsets = {2, 3, 5};
  bags.ids = {1000, 1000, 4, 0, 5, 1000};
  Bags part = bags;
  part.ids = {4, 0, 5};
  BucketizeCase c(part, 0, 3, 2, false, true);
  c.task.ids = bags.ids.data();
  c.task.offsets = bags.offsets.data();
  c.task.bag_count = 2;
  Execute(*Make(), [&](kernels::Backend& b, kernels::Stream& s) { b.Bucketize({c.task}, s); });
  using I = std::vector<int64_t>;
  EXPECT_EQ(c.ids[0].ToVector(), (I{0}));
  EXPECT_EQ(c.ids[1].ToVector(), (I{1, 2}));
  EXPECT_EQ(c.sources[0].ToVector(), (I{3}));
  EXPECT_EQ(c.sources[1].ToVector(), (I{2, 4}));
}

TEST_P(BackendContract, N15_N22_BucketizeWithEmptyBucketsAndEmptyBags) {
  Bags five_rows = MakeBags({3, 0, 9}, 5, 1);
  BucketizeCase c(five_rows, 0, 1, 8, false, true);  // 5 rows on 8 ranks
  Bags nothing;
  nothing.offsets = {0, 0, 0};
  BucketizeCase none(nothing, 0, 10, 4, false, false);
  Bags no_bags;
  no_bags.offsets = {0};
  BucketizeCase empty(no_bags, 0, 10, 4, false, false);
  Execute(*Make(), [&](kernels::Backend& b, kernels::Stream& s) {
    b.Bucketize({c.task, none.task, empty.task}, s);
    b.Bucketize({}, s);
  });
  for (int w = 5; w < 8; ++w) EXPECT_EQ(c.lengths[w].ToVector(), (std::vector<int64_t>{0, 0, 0}));
  for (int w = 0; w < 4; ++w) EXPECT_EQ(none.lengths[w].ToVector(), (std::vector<int64_t>{0, 0}));
}

TEST_P(BackendContract, PermuteMovesRowsBetweenStrides) {
  for (const int64_t row_bytes : {1, 2, 6, 28, 64, 256, 1200}) {
    for (const int64_t extra : {0, 4, 100}) {
      constexpr int64_t kRows = 300;
      GuardedBuffer<uint8_t> src(kRows * (row_bytes + extra)), dst(kRows * (row_bytes + 8));
      for (int64_t i = 0; i < src.size(); ++i) src[i] = static_cast<uint8_t>(i * 7);
      PermuteTask task = {src.data(), row_bytes + extra, dst.data(), row_bytes + (extra == 0 ? 0 : 8), row_bytes,
                          kRows};
      for (const int workers : kWorkerCounts) {
        dst.Poison();
        Execute(*Make(workers), [&](kernels::Backend& b, kernels::Stream& s) { b.Permute({task}, s); });
        for (int64_t row = 0; row < kRows; ++row) {
          for (int64_t i = 0; i < task.dst_stride_bytes; ++i) {
            const uint8_t wanted = i < row_bytes ? src[row * task.src_stride_bytes + i] : 0xff;
            ASSERT_EQ(dst[row * task.dst_stride_bytes + i], wanted) << row_bytes << " row " << row << " byte " << i;
          }
        }
        ASSERT_TRUE(dst.GuardsIntact());
      }
    }
  }
}

TEST_P(BackendContract, PermuteAndScatterOfNothingAreNoOps) {
  Execute(*Make(), [](kernels::Backend& b, kernels::Stream& s) {
    b.Permute({}, s);
    b.Permute({PermuteTask{}, PermuteTask{}}, s);
    b.ScatterRows({}, s);
    b.ScatterRows({ScatterRowsTask{}}, s);
    b.Dedup({}, s);
    b.Offsets({}, s);
  });
}

TEST_P(BackendContract, ScatterRowsPutsEachRowAtItsPosition) {
  constexpr int64_t kRows = 2000, kBytes = 24, kStride = 40, kBase = 1000000;
  GuardedBuffer<uint8_t> src(kRows * kBytes), dst(2 * kRows * kStride);
  std::vector<int64_t> positions(kRows);
  for (int64_t i = 0; i < kRows; ++i) positions[i] = kBase + (i * 7919) % (2 * kRows);
  for (int64_t i = 0; i < src.size(); ++i) src[i] = static_cast<uint8_t>(i * 13 % 251);
  const ScatterRowsTask task = {src.data(), positions.data(), kRows, kBytes, kBase, dst.data(), kStride};
  for (const int workers : kWorkerCounts) {
    dst.Poison();
    Execute(*Make(workers), [&](kernels::Backend& b, kernels::Stream& s) { b.ScatterRows({task}, s); });
    std::vector<uint8_t> wanted(dst.size(), 0xff);
    for (int64_t i = 0; i < kRows; ++i) {
      std::copy_n(src.data() + i * kBytes, kBytes, wanted.begin() + (positions[i] - kBase) * kStride);
    }
    ASSERT_EQ(dst.ToVector(), wanted);
    ASSERT_TRUE(dst.GuardsIntact());
  }
}

// What a row-wise sequence lookup does: split, answer per block, put back. Each id gets its own row.
TEST_P(BackendContract, N7_BucketizeAndScatterAreInverse) {
  Bags bags = MakeBags(AwkwardLengths(), 100, 9);
  bags.ids[4] = -1;
  BucketizeCase c(bags, 0, 26, 4, false, true);
  GuardedBuffer<int64_t> back(bags.id_count());
  Execute(*Make(), [&](kernels::Backend& b, kernels::Stream& s) { b.Bucketize({c.task}, s); });
  std::vector<GuardedBuffer<int64_t>> answers;
  std::vector<ScatterRowsTask> tasks;
  for (int64_t w = 0; w < 4; ++w) {
    answers.emplace_back(c.buckets[w].count);
    for (int64_t i = 0; i < c.buckets[w].count; ++i) answers.back()[i] = c.ids[w][i] + w * 26;
    tasks.push_back({answers.back().data(), c.sources[w].data(), c.buckets[w].count, 8, 0, back.data(), 8});
  }
  Execute(*Make(), [&](kernels::Backend& b, kernels::Stream& s) { b.ScatterRows(tasks, s); });
  for (int64_t i = 0; i < bags.id_count(); ++i) {
    if (i == 4) {
      EXPECT_TRUE(back.IsPoison(i));
    } else {
      ASSERT_EQ(back[i], bags.ids[i]);
    }
  }
}

TEST_P(BackendContract, DedupGivesDistinctIdsInOrderOfFirstOccurrence) {
  std::mt19937_64 random(17);
  const int64_t extremes[] = {0, -1, -2, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  std::vector<std::vector<int64_t>> inputs = {{}, {5}, {5, 5, 5}, {7, 3, 7, 9, 3}};
  inputs.emplace_back(extremes, extremes + 5);
  inputs.back().insert(inputs.back().end(), extremes, extremes + 5);
  for (const int64_t range : {1, 10, 3000, 1000000000}) {
    inputs.emplace_back();
    for (int i = 0; i < 5000; ++i) inputs.back().push_back(static_cast<int64_t>(random() % range) * 4096);
  }
  for (const int workers : kWorkerCounts) {
    std::vector<GuardedBuffer<int64_t>> unique, inverse, counts, wanted_unique, wanted_inverse, wanted_counts;
    std::vector<DedupTask> tasks, wanted;
    for (const std::vector<int64_t>& ids : inputs) {
      const auto n = static_cast<int64_t>(ids.size());
      for (auto* list : {&unique, &inverse, &wanted_unique, &wanted_inverse}) list->emplace_back(n);
      for (auto* list : {&counts, &wanted_counts}) list->emplace_back(1);
      tasks.push_back({ids.data(), n, unique.back().data(), inverse.back().data(), counts.back().data()});
      wanted.push_back(
          {ids.data(), n, wanted_unique.back().data(), wanted_inverse.back().data(), wanted_counts.back().data()});
    }
    Execute(*Make(workers), [&](kernels::Backend& b, kernels::Stream& s) { b.Dedup(tasks, s); });
    Execute(*kernels::ref::NewRefBackend(), [&](kernels::Backend& b, kernels::Stream& s) { b.Dedup(wanted, s); });
    for (size_t t = 0; t < inputs.size(); ++t) {
      ASSERT_EQ(counts[t][0], wanted_counts[t][0]);
      for (int64_t i = 0; i < counts[t][0]; ++i) ASSERT_EQ(unique[t][i], wanted_unique[t][i]);
      ASSERT_EQ(inverse[t].ToVector(), wanted_inverse[t].ToVector());
      ASSERT_TRUE(unique[t].GuardsIntact() && inverse[t].GuardsIntact() && counts[t].GuardsIntact());
    }
  }
}

}  // namespace
}  // namespace embps::testing
