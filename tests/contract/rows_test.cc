// init_rows and row_copy.
#include <cmath>
#include <limits>

#include "kernels/ref/ref_backend.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/elements.h"
#include "tests/support/guarded_buffer.h"

namespace embps::testing {
namespace {

using kernels::ElementBytes;
using kernels::ElementType;
using kernels::InitializerKind;
using kernels::InitRowsTask;
using kernels::RowCopyTask;

template <class Enqueue>
void Execute(kernels::Backend& backend, Enqueue enqueue) {
  ASSERT_TRUE(RunAndWait(backend, enqueue).ok());
}

// A shard of R rows with state of Adam's widths.
struct Shard {
  Shard(ElementType type, int64_t row_count, int32_t dim)
      : rows(row_count * dim * ElementBytes(type)), state0(row_count * dim), state1(row_count) {
    task.table = {.rows = rows.data(),
                  .state0 = state0.data(),
                  .state1 = state1.data(),
                  .type = type,
                  .row_count = row_count,
                  .dim = dim};
    task.state_widths = {dim, 1};
    task.count = row_count;
    task.key = 0x0123456789abcdefu;
  }
  GuardedBuffer<uint8_t> rows;
  GuardedBuffer<float> state0, state1;
  InitRowsTask task;
};

void Initialize(kernels::Backend& backend, const InitRowsTask& task) {
  Execute(backend, [&](kernels::Backend& b, kernels::Stream& s) { b.InitRows({task}, s); });
}

TEST_P(BackendContract, InitialRowsAgreeWithTheOracle) {
  for (const ElementType type : kElementTypes) {
    for (const InitializerKind kind :
         {InitializerKind::kUniform, InitializerKind::kNormal, InitializerKind::kConstant}) {
      for (const int32_t dim : {1, 3, 8, 33, 130}) {
        Shard got(type, 700, dim), wanted(type, 700, dim);
        for (Shard* shard : {&got, &wanted}) {
          shard->task.kind = kind;
          shard->task.a = -0.05f;
          shard->task.b = 0.07f;
          shard->task.table.row_base = (int64_t{1} << 34) + 5;
          shard->task.table.column_base = 6;
        }
        Initialize(*kernels::ref::NewRefBackend(), wanted.task);
        const double relative = type == ElementType::kFp32 ? 1e-6 : type == ElementType::kFp16 ? 0x1p-10 : 0x1p-7;
        std::vector<uint8_t> first;
        for (const int workers : kWorkerCounts) {
          got.rows.Poison();
          Initialize(*Make(workers), got.task);
          for (int64_t i = 0; i < int64_t{700} * dim; ++i) {
            const float value = GetElement(wanted.rows.data(), type, i);
            ASSERT_NEAR(GetElement(got.rows.data(), type, i), value, relative * std::abs(value) + 4e-7) << i;
            ASSERT_EQ(got.state0[i], 0.0f);
          }
          for (int64_t i = 0; i < 700; ++i) ASSERT_EQ(got.state1[i], 0.0f);
          if (first.empty()) first = got.rows.ToVector();
          ASSERT_EQ(got.rows.ToVector(), first) << workers << " workers";
          ASSERT_TRUE(got.rows.GuardsIntact() && got.state0.GuardsIntact() && got.state1.GuardsIntact());
        }
      }
    }
  }
}

TEST_P(BackendContract, S26_InitialRowsAreTheSameOnOneShardAndOnMany) {
  constexpr int64_t kRows = 40;
  constexpr int32_t kDim = 22;
  Shard whole(ElementType::kFp32, kRows, kDim);
  whole.task.a = -1;
  whole.task.b = 1;
  Initialize(*Make(), whole.task);
  const auto* const values = reinterpret_cast<const float*>(whole.rows.data());
  for (const int64_t row_begin : {0, 7, 30}) {
    for (const int32_t column_begin : {0, 1, 4, 13}) {
      Shard part(ElementType::kFp32, 10, 9);
      part.task.a = -1;
      part.task.b = 1;
      part.task.table.row_base = row_begin;
      part.task.table.column_base = column_begin;
      // In two calls, the later rows first: the order of arrival does not matter.
      part.task.first_row = 4;
      part.task.count = 6;
      Initialize(*Make(), part.task);
      part.task.first_row = 0;
      part.task.count = 4;
      Initialize(*Make(), part.task);
      const auto* const got = reinterpret_cast<const float*>(part.rows.data());
      for (int64_t row = 0; row < 10; ++row) {
        for (int64_t c = 0; c < 9; ++c) {
          ASSERT_EQ(got[row * 9 + c], values[(row_begin + row) * kDim + column_begin + c]);
        }
      }
    }
  }
}

TEST_P(BackendContract, InitRowsTouchesItsOwnRowsAndStateOnly) {
  Shard shard(ElementType::kFp32, 10, 5);
  shard.task.first_row = 3;
  shard.task.count = 4;
  Initialize(*Make(), shard.task);
  for (int64_t row = 0; row < 10; ++row) {
    const bool inside = row >= 3 && row < 7;
    ASSERT_EQ(shard.state1.IsPoison(row), !inside);
    for (int64_t c = 0; c < 5; ++c) {
      ASSERT_EQ(shard.state0.IsPoison(row * 5 + c), !inside);
      ASSERT_EQ(std::isnan(GetElement(shard.rows.data(), ElementType::kFp32, row * 5 + c)), !inside);
    }
  }
  shard.task.count = 0;
  Initialize(*Make(), shard.task);
  Execute(*Make(), [](kernels::Backend& b, kernels::Stream& s) { b.InitRows({}, s); });
}

TEST_P(BackendContract, S22_UniformRowsFillTheRangeOfTorchRecsDefault) {
  constexpr int64_t kRows = 2500;
  const float bound = std::sqrt(1.0f / kRows);
  Shard shard(ElementType::kFp32, kRows, 64);
  shard.task.a = -bound;
  shard.task.b = bound;
  Initialize(*Make(), shard.task);
  const auto* const values = reinterpret_cast<const float*>(shard.rows.data());
  double sum = 0, squares = 0;
  float lowest = 1, highest = -1;
  for (int64_t i = 0; i < kRows * 64; ++i) {
    sum += values[i];
    squares += double{values[i]} * values[i];
    lowest = std::min(lowest, values[i]);
    highest = std::max(highest, values[i]);
  }
  const double n = kRows * 64;
  EXPECT_GE(lowest, -bound);
  EXPECT_LE(highest, bound);
  EXPECT_LT(lowest, -0.999f * bound);
  EXPECT_GT(highest, 0.999f * bound);
  EXPECT_NEAR(sum / n, 0, 0.01 * bound);
  EXPECT_NEAR(squares / n, bound * bound / 3, 0.01 * bound * bound);
}

TEST_P(BackendContract, NormalRowsHaveTheirMomentsAndTails) {
  constexpr int64_t kValues = 200000;
  Shard shard(ElementType::kFp32, kValues / 50, 50);
  shard.task.kind = InitializerKind::kNormal;
  shard.task.a = 2.0f;
  Initialize(*Make(), shard.task);
  const auto* const values = reinterpret_cast<const float*>(shard.rows.data());
  double sum = 0, squares = 0, fourths = 0;
  int64_t beyond_two = 0;
  for (int64_t i = 0; i < kValues; ++i) {
    const double z = values[i] / 2.0;
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    beyond_two += std::abs(z) > 2;
  }
  EXPECT_NEAR(sum / kValues, 0, 0.012);
  EXPECT_NEAR(squares / kValues, 1, 0.02);
  EXPECT_NEAR(fourths / kValues, 3, 0.15);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kValues, 0.0455, 0.003);
}

TEST_P(BackendContract, RowCopyReadsAndWritesEveryTypeAndWidth) {
  for (const ElementType type : kElementTypes) {
    for (const int32_t dim : {1, 2, 3, 7, 16, 33, 64, 200}) {
      constexpr int64_t kRows = 900;
      GuardedBuffer<uint8_t> table(kRows * dim * ElementBytes(type)), wanted(kRows * dim * ElementBytes(type));
      std::vector<int64_t> ids;
      for (int64_t row = kRows - 1; row >= 0; row -= 2) ids.push_back(row);
      const auto count = static_cast<int64_t>(ids.size());
      GuardedBuffer<float> values(count * (dim + 2)), back(count * (dim + 2));
      for (int64_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 100;
      RowCopyTask write = {table.data(), type, dim, ids.data(), count, values.data(), dim + 2, true};
      RowCopyTask write_wanted = write;
      write_wanted.table = wanted.data();
      Execute(*kernels::ref::NewRefBackend(),
              [&](kernels::Backend& b, kernels::Stream& s) { b.RowCopy({write_wanted}, s); });
      for (const int workers : kWorkerCounts) {
        table.Poison();
        back.Poison();
        RowCopyTask read = write;
        read.values = back.data();
        read.write = false;
        Execute(*Make(workers), [&](kernels::Backend& b, kernels::Stream& s) {
          b.RowCopy({write}, s);
          b.RowCopy({read}, s);
        });
        ASSERT_EQ(table.ToVector(), wanted.ToVector()) << ElementTypeName(type) << " D " << dim;
        for (int64_t i = 0; i < count; ++i) {
          for (int64_t c = 0; c < dim; ++c) {
            ASSERT_EQ(back[i * (dim + 2) + c], GetElement(wanted.data(), type, ids[i] * dim + c));
          }
          ASSERT_TRUE(back.IsPoison(i * (dim + 2) + dim));
        }
        ASSERT_TRUE(table.GuardsIntact() && back.GuardsIntact());
      }
    }
  }
}

TEST_P(BackendContract, RowCopyHoldsLargeValuesAtTheLargestFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  GuardedBuffer<float> values({1e30f, -1e30f, infinity, -infinity, 65504.0f, 65519.9f, 3.4e38f, -3.4e38f, std::nanf(""),
                               0x1p-25f, 0x1.000002p-25f, -0x1p-25f});
  const std::vector<int64_t> ids = {0};
  GuardedBuffer<uint16_t> half(12), bfloat(12);
  Execute(*Make(), [&](kernels::Backend& b, kernels::Stream& s) {
    b.RowCopy({RowCopyTask{half.data(), ElementType::kFp16, 12, ids.data(), 1, values.data(), 12, true},
               RowCopyTask{bfloat.data(), ElementType::kBf16, 12, ids.data(), 1, values.data(), 12, true}},
              s);
  });
  const std::vector<uint16_t> wanted_half = {0x7bff, 0xfbff, 0x7bff, 0xfbff, 0x7bff, 0x7bff, 0x7bff, 0xfbff};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(half[i], wanted_half[i]) << i;
  EXPECT_TRUE(std::isnan(HalfToFloat(half[8])));
  EXPECT_EQ(half[9], 0u);
  EXPECT_EQ(half[10], 1u);
  EXPECT_EQ(half[11], 0x8000u);
  EXPECT_EQ(bfloat[2], 0x7f7fu);
  EXPECT_EQ(bfloat[3], 0xff7fu);
  EXPECT_EQ(bfloat[6], 0x7f7fu);
  EXPECT_TRUE(std::isnan(BfloatToFloat(bfloat[8])));
}

}  // namespace
}  // namespace embps::testing
