// pooled_lookup: against the oracle within tolerance, against the canonical order to the bit.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/ref/ref_backend.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/canonical_fold.h"
#include "tests/support/elements.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/random_bags.h"
#include "tests/support/tolerances.h"

namespace embps::testing {
namespace {

using kernels::ElementBytes;
using kernels::ElementType;
using kernels::PooledLookupTask;

enum class Mode { kSum, kWeighted, kDivisors, kDivideByLength };
constexpr Mode kModes[] = {Mode::kSum, Mode::kWeighted, Mode::kDivisors, Mode::kDivideByLength};
constexpr int32_t kDims[] = {1, 2, 3, 4, 7, 8, 16, 33, 64, 128, 200, 256, 300};

// One task and everything that it borrows.
struct PooledCase {
  PooledCase(ElementType type, ElementType out_type, int32_t dim, int64_t row_count, Mode mode, Bags input)
      : bags(std::move(input)),
        rows(row_count * dim * ElementBytes(type)),
        stride(dim + 3),
        out(bags.bag_count() * stride * ElementBytes(out_type)) {
    for (int64_t i = 0; i < row_count * dim; ++i) {
      SetElement(rows.data(), type, i, std::sin(0.37f * static_cast<float>(i % 100003)) * 1.7f);
    }
    for (int64_t b = 0; b < bags.bag_count(); ++b) divisors.push_back(bags.length(b) * 3);
    task.table.rows = rows.data();
    task.table.type = type;
    task.table.row_count = row_count;
    task.table.dim = dim;
    task.offsets = bags.offsets.data();
    task.ids = bags.ids.data();
    if (mode == Mode::kWeighted) task.weights = bags.weights.data();
    if (mode == Mode::kDivisors) task.divisors = divisors.data();
    task.divide_by_length = mode == Mode::kDivideByLength;
    task.bag_count = bags.bag_count();
    task.out = out.data();
    task.out_stride = stride;
    task.out_type = out_type;
  }
  float Term(int64_t id_index, int64_t column) const {
    const float value = GetElement(rows.data(), task.table.type, bags.ids[id_index] * task.table.dim + column);
    return task.weights != nullptr ? task.weights[id_index] * value : value;
  }
  // The output in canonical order, before its conversion.
  float Canonical(int64_t bag, int64_t column) const {
    float sum = CanonicalSum(bags.length(bag), [&](int64_t i) { return Term(bags.offsets[bag] + i, column); });
    const int64_t divisor = task.divide_by_length      ? bags.length(bag)
                            : task.divisors != nullptr ? divisors[bag]
                                                       : int64_t{1};
    if (divisor > 1) sum = sum / static_cast<float>(divisor);
    return sum;
  }
  double AbsoluteSum(int64_t bag, int64_t column) const {
    double sum = 0;
    for (int64_t i = bags.offsets[bag]; i < bags.offsets[bag + 1]; ++i) sum += std::abs(double{Term(i, column)});
    return sum;
  }

  Bags bags;
  GuardedBuffer<uint8_t> rows;
  int64_t stride;
  GuardedBuffer<uint8_t> out;
  std::vector<int64_t> divisors;
  PooledLookupTask task;
};

void Execute(kernels::Backend& backend, const PooledLookupTask& task) {
  ASSERT_TRUE(
      RunAndWait(backend, [&](kernels::Backend& b, kernels::Stream& stream) { b.PooledLookup({task}, stream); }).ok());
}

void ExpectCanonical(const PooledCase& c) {
  const ElementType type = c.task.out_type;
  GuardedBuffer<uint8_t> expected(ElementBytes(type));
  for (int64_t b = 0; b < c.task.bag_count; ++b) {
    for (int64_t column = 0; column < c.task.table.dim; ++column) {
      SetElement(expected.data(), type, 0, c.Canonical(b, column));
      ASSERT_EQ(ElementBits(c.out.data(), type, b * c.stride + column), ElementBits(expected.data(), type, 0))
          << "bag " << b << " of length " << c.bags.length(b) << ", column " << column;
    }
    for (int64_t byte = c.task.table.dim * ElementBytes(type); byte < c.stride * ElementBytes(type); ++byte) {
      ASSERT_TRUE(c.out.IsPoison(b * c.stride * ElementBytes(type) + byte)) << "written between rows, bag " << b;
    }
  }
  ASSERT_TRUE(c.out.GuardsIntact());
  ASSERT_TRUE(c.rows.GuardsIntact());
}

void ExpectNearOracle(const PooledCase& c) {
  GuardedBuffer<uint8_t> expected(c.out.size());
  PooledLookupTask task = c.task;
  task.out = expected.data();
  const auto oracle = kernels::ref::NewRefBackend();
  Execute(*oracle, task);
  for (int64_t b = 0; b < task.bag_count; ++b) {
    for (int64_t column = 0; column < task.table.dim; ++column) {
      const int64_t index = b * c.stride + column;
      const double wanted = GetElement(expected.data(), task.out_type, index);
      ASSERT_NEAR(GetElement(c.out.data(), task.out_type, index), wanted,
                  PooledTolerance(task.out_type, wanted, c.AbsoluteSum(b, column)))
          << "bag " << b << ", column " << column;
    }
  }
}

TEST_P(BackendContract, N14_PooledLookupIsRightAtEveryWidthAndType) {
  int turn = 0;
  for (const int32_t dim : kDims) {
    for (const ElementType type : kElementTypes) {
      for (const ElementType out_type : kElementTypes) {
        const Mode mode = kModes[turn++ % 4];
        SCOPED_TRACE(::testing::Message() << "D " << dim << ", rows " << ElementTypeName(type) << ", out "
                                          << ElementTypeName(out_type) << ", mode " << static_cast<int>(mode));
        PooledCase c(type, out_type, dim, 97, mode, MakeBags(AwkwardLengths(), 97, turn));
        for (const int workers : kWorkerCounts) {
          c.out.Poison();
          Execute(*Make(workers), c.task);
          ExpectCanonical(c);
        }
        ExpectNearOracle(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(BackendContract, PooledLookupOfAHotRowFollowsTheCanonicalOrder) {
  for (const ElementType type : kElementTypes) {
    Bags bags = MakeBags({5000, 1, 2500}, 50, 3);
    std::fill(bags.ids.begin(), bags.ids.begin() + 4000, 49);
    PooledCase c(type, ElementType::kFp32, 64, 50, Mode::kWeighted, bags);
    Execute(*Make(), c.task);
    ExpectCanonical(c);
  }
}

TEST_P(BackendContract, PooledLookupOfOneBagOfDuplicatesIsATrueSum) {
  Bags bags;
  bags.offsets = {0, 100000};
  bags.ids.assign(100000, 0);
  PooledCase c(ElementType::kFp32, ElementType::kFp32, 8, 1, Mode::kSum, bags);
  for (int64_t i = 0; i < 8; ++i) SetElement(c.rows.data(), ElementType::kFp32, i, 0.25f);
  Execute(*Make(), c.task);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(GetElement(c.out.data(), ElementType::kFp32, i), 25000.0f);
}

TEST_P(BackendContract, N11_S11_EmptyBagsGiveZerosInEveryMode) {
  for (const Mode mode : kModes) {
    for (const ElementType out_type : kElementTypes) {
      Bags bags;
      bags.offsets.assign(6, 0);
      PooledCase c(ElementType::kFp32, out_type, 33, 4, mode, bags);
      c.task.ids = nullptr;  // no ids, no memory
      Execute(*Make(), c.task);
      for (int64_t b = 0; b < 5; ++b) {
        for (int64_t column = 0; column < 33; ++column) {
          ASSERT_EQ(ElementBits(c.out.data(), out_type, b * c.stride + column), 0u);
        }
      }
      ASSERT_TRUE(c.out.GuardsIntact());
    }
  }
}

TEST_P(BackendContract, N4_S16_N22_NoBagsAndNoTasksAreANoOp) {
  GuardedBuffer<float> out(4);
  PooledLookupTask none;
  none.table.dim = 4;
  none.out = out.data();
  none.out_stride = 4;
  const std::vector<PooledLookupTask> tasks(3, none);
  for (const int workers : kWorkerCounts) {
    ASSERT_TRUE(RunAndWait(*Make(workers), [&](kernels::Backend& b, kernels::Stream& stream) {
                  b.PooledLookup({}, stream);
                  b.PooledLookup(tasks, stream);
                }).ok());
  }
  for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(out.IsPoison(i));
}

TEST_P(BackendContract, N1_MeanOfASplitBagDividesByTheWholeBag) {
  // Rows all 2.0, the bag's two ids on two shards: each gives half of the mean.
  Bags bags;
  bags.offsets = {0, 1};
  bags.ids = {0};
  PooledCase part(ElementType::kFp32, ElementType::kFp32, 4, 1, Mode::kDivisors, bags);
  for (int64_t i = 0; i < 4; ++i) SetElement(part.rows.data(), ElementType::kFp32, i, 2.0f);
  part.divisors = {2};
  part.task.divisors = part.divisors.data();
  Execute(*Make(), part.task);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(GetElement(part.out.data(), ElementType::kFp32, i) * 2, 2.0f);
}

TEST_P(BackendContract, PooledLookupOfManyTablesAtOnceEqualsOneByOne) {
  std::vector<PooledCase> cases;
  cases.reserve(40);
  for (int t = 0; t < 40; ++t) {
    std::vector<int64_t> lengths = AwkwardLengths();
    if (t == 7) lengths.assign(900, 9);  // one dominates
    if (t % 5 == 0) lengths.clear();
    cases.emplace_back(kElementTypes[t % 3], ElementType::kFp32, kDims[t % 13], 11 + t, kModes[t % 4],
                       MakeBags(lengths, 11 + t, t));
  }
  std::vector<PooledLookupTask> tasks;
  for (const PooledCase& c : cases) tasks.push_back(c.task);
  for (const int workers : kWorkerCounts) {
    for (PooledCase& c : cases) c.out.Poison();
    ASSERT_TRUE(RunAndWait(*Make(workers), [&](kernels::Backend& b, kernels::Stream& stream) {
                  b.PooledLookup(tasks, stream);
                }).ok());
    for (const PooledCase& c : cases) ExpectCanonical(c);
  }
}

// Outputs beyond the cache may be written around it, aligned or not.
TEST_P(BackendContract, PooledLookupOfALargeOutputIsComplete) {
  for (const int64_t stride : {64, 80, 65}) {
    constexpr int64_t kBags = 20000;
    Bags bags = MakeBags(std::vector<int64_t>(kBags, 1), 500, 5);
    PooledCase c(ElementType::kFp32, ElementType::kFp32, 64, 500, Mode::kSum, bags);
    GuardedBuffer<float> out(kBags * stride);
    c.task.out = out.data();
    c.task.out_stride = stride;
    Execute(*Make(), c.task);
    for (int64_t b = 0; b < kBags; ++b) {
      const float* const row = reinterpret_cast<const float*>(c.rows.data()) + bags.ids[b] * 64;
      for (int64_t column = 0; column < 64; ++column) {
        ASSERT_EQ(out[b * stride + column], 0.0f + row[column]) << "bag " << b << ", column " << column;
      }
      for (int64_t column = 64; column < stride; ++column) ASSERT_TRUE(out.IsPoison(b * stride + column));
    }
    ASSERT_TRUE(out.GuardsIntact());
  }
}

TEST_P(BackendContract, PooledLookupOfInfiniteAndTinyRowsFollowsIeee) {
  const float infinity = std::numeric_limits<float>::infinity();
  Bags bags;
  bags.offsets = {0, 1, 2, 4};
  bags.ids = {0, 1, 2, 2};
  PooledCase c(ElementType::kFp32, ElementType::kFp16, 16, 3, Mode::kSum, bags);
  for (int64_t i = 0; i < 16; ++i) {
    SetElement(c.rows.data(), ElementType::kFp32, i, i % 2 == 0 ? infinity : -65520.0f);
    SetElement(c.rows.data(), ElementType::kFp32, 16 + i, 0x1.8p-24f);  // halfway between two fp16 subnormals
    SetElement(c.rows.data(), ElementType::kFp32, 32 + i, -0.0f);
  }
  Execute(*Make(), c.task);
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(ElementBits(c.out.data(), ElementType::kFp16, i), i % 2 == 0 ? 0x7c00u : 0xfc00u);
    EXPECT_EQ(ElementBits(c.out.data(), ElementType::kFp16, c.stride + i), 2u);
    EXPECT_EQ(ElementBits(c.out.data(), ElementType::kFp16, 2 * c.stride + i), 0u);
  }
}

}  // namespace
}  // namespace embps::testing
