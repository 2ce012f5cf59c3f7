// sequence_lookup and reduce_partials: copies, conversions and sums in rank order, to the bit.
#include <cmath>
#include <random>

#include "kernels/ref/ref_backend.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/elements.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/tolerances.h"

namespace embps::testing {
namespace {

using kernels::ElementBytes;
using kernels::ElementType;
using kernels::ReducePartialsTask;
using kernels::SequenceLookupTask;

void Execute(kernels::Backend& backend, const SequenceLookupTask& task) {
  ASSERT_TRUE(RunAndWait(backend, [&](kernels::Backend& b, kernels::Stream& stream) {
                b.SequenceLookup({task}, stream);
              }).ok());
}

TEST_P(BackendContract, N14_SequenceLookupGivesRowsInIdOrderAtEveryWidthAndType) {
  for (const int32_t dim : {1, 2, 3, 4, 7, 8, 16, 33, 64, 128, 200, 256, 300}) {
    for (const ElementType type : kElementTypes) {
      for (const ElementType out_type : kElementTypes) {
        constexpr int64_t kRows = 61, kIds = 1300;
        GuardedBuffer<uint8_t> rows(kRows * dim * ElementBytes(type));
        for (int64_t i = 0; i < kRows * dim; ++i) SetElement(rows.data(), type, i, std::cos(0.1f * i) * 3);
        std::vector<int64_t> ids(kIds);
        for (int64_t i = 0; i < kIds; ++i) ids[i] = i % 7 == 3 ? -1 : (i * 37) % kRows;
        ids.back() = kRows - 1;
        const int64_t stride = dim + 1;
        GuardedBuffer<uint8_t> out(kIds * stride * ElementBytes(out_type));
        SequenceLookupTask task;
        task.table = {.rows = rows.data(), .type = type, .row_count = kRows, .dim = dim};
        task.ids = ids.data();
        task.id_count = kIds;
        task.out = out.data();
        task.out_stride = stride;
        task.out_type = out_type;
        for (const int workers : kWorkerCounts) {
          out.Poison();
          Execute(*Make(workers), task);
          uint32_t scratch = 0;
          for (int64_t i = 0; i < kIds; ++i) {
            for (int64_t c = 0; c < dim; ++c) {
              const float value = ids[i] < 0 ? 0.0f : GetElement(rows.data(), type, ids[i] * dim + c);
              SetElement(&scratch, out_type, 0, value);
              ASSERT_EQ(ElementBits(out.data(), out_type, i * stride + c), ElementBits(&scratch, out_type, 0))
                  << "D " << dim << " " << ElementTypeName(type) << " to " << ElementTypeName(out_type) << ", id " << i;
            }
            ASSERT_TRUE(out.IsPoison((i * stride + dim) * ElementBytes(out_type)));
          }
          ASSERT_TRUE(out.GuardsIntact());
        }
      }
    }
  }
}

TEST_P(BackendContract, SequenceLookupConvertsEvery16BitPatternExactly) {
  for (const ElementType type : {ElementType::kFp16, ElementType::kBf16}) {
    std::vector<uint16_t> rows(65536);
    std::vector<int64_t> ids(4096);
    for (int64_t i = 0; i < 65536; ++i) rows[i] = static_cast<uint16_t>(i);
    for (int64_t i = 0; i < 4096; ++i) ids[i] = i;
    for (const ElementType out_type : {ElementType::kFp32, type}) {
      GuardedBuffer<uint8_t> out(65536 * ElementBytes(out_type));
      SequenceLookupTask task;
      task.table = {.rows = rows.data(), .type = type, .row_count = 4096, .dim = 16};
      task.ids = ids.data();
      task.id_count = 4096;
      task.out = out.data();
      task.out_stride = 16;
      task.out_type = out_type;
      Execute(*Make(), task);
      for (int64_t i = 0; i < 65536; ++i) {
        const float value = GetElement(rows.data(), type, i);
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(GetElement(out.data(), out_type, i))) << i;
        } else {
          uint32_t expected = 0;
          SetElement(&expected, out_type, 0, value);
          ASSERT_EQ(ElementBits(out.data(), out_type, i), expected) << i;
        }
      }
    }
  }
}

TEST_P(BackendContract, SequenceLookupRoundsEveryKindOfFp32ToNearestEven) {
  std::vector<uint32_t> rows;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const uint32_t fraction : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x7fffu, 0x8000u, 0x8001u,
                                    0x18000u, 0x200000u, 0x400000u, 0x7fdfffu, 0x7fe000u, 0x7fffffu}) {
      rows.push_back(exponent << 23 | fraction);
      rows.push_back(0x80000000u | exponent << 23 | fraction);
    }
  }
  std::mt19937 random(11);
  while (rows.size() < 32768) rows.push_back(static_cast<uint32_t>(random()));
  std::vector<int64_t> ids(1024);
  for (int64_t i = 0; i < 1024; ++i) ids[i] = i;
  for (const ElementType out_type : {ElementType::kFp16, ElementType::kBf16}) {
    GuardedBuffer<uint16_t> out(32768);
    SequenceLookupTask task;
    task.table = {.rows = rows.data(), .type = ElementType::kFp32, .row_count = 1024, .dim = 32};
    task.ids = ids.data();
    task.id_count = 1024;
    task.out = out.data();
    task.out_stride = 32;
    task.out_type = out_type;
    Execute(*Make(), task);
    for (int64_t i = 0; i < 32768; ++i) {
      const float value = GetElement(rows.data(), ElementType::kFp32, i);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(GetElement(out.data(), out_type, i)));
      } else {
        uint32_t expected = 0;
        SetElement(&expected, out_type, 0, value);
        ASSERT_EQ(out[i], expected) << std::hex << rows[i];
      }
    }
  }
}

TEST_P(BackendContract, N22_SequenceLookupOfNothingIsANoOp) {
  SequenceLookupTask task;
  task.table.dim = 8;
  Execute(*Make(), task);
  ASSERT_TRUE(RunAndWait(*Make(), [](kernels::Backend& b, kernels::Stream& stream) {
                b.SequenceLookup({}, stream);
                b.ReducePartials({}, stream);
              }).ok());
}

TEST_P(BackendContract, ReducePartialsAddsInRankOrderAndDividesOnce) {
  for (const int32_t dim : {1, 3, 8, 33, 64, 200}) {
    for (const ElementType out_type : kElementTypes) {
      for (const int32_t part_count : {1, 2, 5, 8}) {
        constexpr int64_t kBags = 120;
        std::vector<GuardedBuffer<float>> parts;
        std::vector<const float*> pointers;
        std::mt19937 random(dim * 10 + part_count);
        for (int32_t p = 0; p < part_count; ++p) {
          parts.emplace_back(kBags * dim);
          for (float& value : parts.back().span()) value = std::ldexp(static_cast<float>(random() % 4095) - 2047, -9);
          pointers.push_back(parts.back().data());
        }
        std::vector<int64_t> divisors(kBags);
        for (int64_t b = 0; b < kBags; ++b) divisors[b] = b % 5;
        GuardedBuffer<uint8_t> out(kBags * (dim + 2) * ElementBytes(out_type));
        ReducePartialsTask task;
        task.parts = pointers.data();
        task.part_count = part_count;
        task.divisors = part_count == 5 ? nullptr : divisors.data();
        task.bag_count = kBags;
        task.dim = dim;
        task.out = out.data();
        task.out_stride = dim + 2;
        task.out_type = out_type;
        for (const int workers : kWorkerCounts) {
          out.Poison();
          ASSERT_TRUE(RunAndWait(*Make(workers), [&](kernels::Backend& b, kernels::Stream& stream) {
                        b.ReducePartials({task}, stream);
                      }).ok());
          for (int64_t b = 0; b < kBags; ++b) {
            for (int64_t c = 0; c < dim; ++c) {
              float sum = parts[0][b * dim + c];
              for (int32_t p = 1; p < part_count; ++p) sum = sum + parts[p][b * dim + c];
              if (task.divisors != nullptr && divisors[b] > 1) sum = sum / static_cast<float>(divisors[b]);
              uint32_t expected = 0;
              SetElement(&expected, out_type, 0, sum);
              ASSERT_EQ(ElementBits(out.data(), out_type, b * (dim + 2) + c), expected) << "bag " << b;
            }
            ASSERT_TRUE(out.IsPoison((b * (dim + 2) + dim) * ElementBytes(out_type)));
          }
          ASSERT_TRUE(out.GuardsIntact());
        }
      }
    }
  }
}

TEST_P(BackendContract, ReducePartialsAgreesWithTheOracle) {
  constexpr int64_t kBags = 50, kDim = 24;
  GuardedBuffer<float> a(kBags * kDim), b(kBags * kDim), out(kBags * kDim), expected(kBags * kDim);
  std::mt19937 random(5);
  for (int64_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(random()) * 0x1p-30f - 2;
    b[i] = static_cast<float>(random()) * 0x1p-30f - 2;
  }
  const float* const parts[] = {a.data(), b.data()};
  ReducePartialsTask task;
  task.parts = parts;
  task.part_count = 2;
  task.bag_count = kBags;
  task.dim = kDim;
  task.out = out.data();
  task.out_stride = kDim;
  const auto run = [&](kernels::Backend& backend) {
    ASSERT_TRUE(
        RunAndWait(backend, [&](kernels::Backend& b, kernels::Stream& s) { b.ReducePartials({task}, s); }).ok());
  };
  run(*Make());
  task.out = expected.data();
  run(*kernels::ref::NewRefBackend());
  for (int64_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], expected[i],
                PooledTolerance(ElementType::kFp32, expected[i], std::abs(double{a[i]}) + std::abs(double{b[i]})));
  }
}

}  // namespace
}  // namespace embps::testing
