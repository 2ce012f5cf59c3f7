// Streams and memory of a backend.
#include <cstring>
#include <fstream>

#include "tests/contract/backend_contract.h"
#include "tests/support/guarded_buffer.h"

namespace embps::testing {
namespace {

using kernels::Buffer;
using kernels::MemoryKind;

TEST_P(BackendContract, AStreamRunsWorkInOrderWithItsOperations) {
  const std::vector<int64_t> lengths = {2, 3};
  GuardedBuffer<int64_t> offsets(3);
  std::vector<int64_t> seen;
  ASSERT_TRUE(RunAndWait(*Make(), [&](kernels::Backend& b, kernels::Stream& stream) {
                stream.Enqueue([&] {
                  seen.push_back(1);
                  return absl::OkStatus();
                });
                b.Offsets({kernels::OffsetsTask{lengths.data(), 2, offsets.data()}}, stream);
                stream.Enqueue([&] {
                  seen.push_back(offsets[2]);
                  return absl::OkStatus();
                });
              }).ok());
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 5}));
}

TEST_P(BackendContract, AStreamReportsItsFirstErrorOnceAndGoesOn) {
  const auto backend = Make();
  bool ran = false;
  const absl::Status status = RunAndWait(*backend, [&](kernels::Backend&, kernels::Stream& stream) {
    stream.Enqueue([] { return absl::UnavailableError("first"); });
    stream.Enqueue([&] {
      ran = true;
      return absl::InternalError("second");
    });
  });
  EXPECT_EQ(status, absl::UnavailableError("first"));
  EXPECT_TRUE(ran);

  const auto stream = backend->NewStream();
  stream->Enqueue([] { return absl::UnavailableError("kept"); });
  EXPECT_TRUE(RunAndWait(*backend, [](kernels::Backend&, kernels::Stream&) {}).ok()) << "another stream's error";
  EXPECT_EQ(WaitFor(*stream), absl::UnavailableError("kept"));
  EXPECT_TRUE(WaitFor(*stream).ok());
}

TEST_P(BackendContract, TableMemoryIsZeroAndAligned) {
  const auto backend = Make();
  for (const int64_t bytes : {0, 1, 100, 4096, 3 << 20}) {
    const auto table = backend->AllocateTable(bytes);
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(table->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(table->data()) % 64, 0u);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(table->as<uint8_t>()[i], 0);
  }
}

TEST_P(BackendContract, ScratchIsWritableAlignedAndDistinct) {
  const auto backend = Make();
  std::vector<Buffer> buffers;
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
    for (const int64_t bytes : {0, 1, 64, 1000, 70000, 3 << 20}) {
      auto buffer = backend->AllocateScratch(kind, bytes);
      ASSERT_TRUE(buffer.ok());
      EXPECT_NE(buffer->data(), nullptr);
      EXPECT_EQ(buffer->bytes(), bytes);
      EXPECT_EQ(buffer->kind(), kind);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
      std::memset(buffer->data(), static_cast<int>(buffers.size()) + 1, bytes);
      buffers.push_back(*std::move(buffer));
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (int64_t at = 0; at < buffers[i].bytes(); ++at) ASSERT_EQ(buffers[i].as<uint8_t>()[at], i + 1);
  }
}

TEST_P(BackendContract, BuffersMayOutliveTheirBackend) {
  auto backend = Make();
  auto scratch = backend->AllocateScratch(MemoryKind::kDevice, 5000);
  auto table = backend->AllocateTable(5000);
  ASSERT_TRUE(scratch.ok() && table.ok());
  backend.reset();
  std::memset(scratch->data(), 1, 5000);
  std::memset(table->data(), 1, 5000);
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size_pages = 0, resident_pages = 0;
  statm >> size_pages >> resident_pages;
  return resident_pages * 4096;
}

TEST_P(BackendContract, N12_TheLastRowOfATableBeyond2To31ElementsIsReachableAndSparse) {
  constexpr int32_t kDim = 64;
  constexpr int64_t kRows = (int64_t{1} << 25) + 9;  // R * D = 2^31 + 576
  const int64_t resident_before = ResidentBytes();
  const auto backend = Make();
  const auto table = backend->AllocateTable(kRows * kDim * int64_t{sizeof(float)});
  ASSERT_TRUE(table.ok());
  const std::vector<int64_t> ids = {kRows - 1, 0}, offsets = {0, 1, 2};
  std::vector<float> values(2 * kDim);
  for (int i = 0; i < 2 * kDim; ++i) values[i] = static_cast<float>(i + 1);
  GuardedBuffer<float> pooled(2 * kDim), sequence(2 * kDim), read(2 * kDim);
  const kernels::TableView view = {.rows = table->data(), .row_count = kRows, .dim = kDim};
  ASSERT_TRUE(
      RunAndWait(*backend, [&](kernels::Backend& b, kernels::Stream& stream) {
        using kernels::ElementType;
        b.RowCopy(
            {kernels::RowCopyTask{table->data(), ElementType::kFp32, kDim, ids.data(), 2, values.data(), kDim, true}},
            stream);
        b.PooledLookup({kernels::PooledLookupTask{.table = view,
                                                  .offsets = offsets.data(),
                                                  .ids = ids.data(),
                                                  .bag_count = 2,
                                                  .out = pooled.data(),
                                                  .out_stride = kDim}},
                       stream);
        b.SequenceLookup({kernels::SequenceLookupTask{view, ids.data(), 2, sequence.data(), kDim, ElementType::kFp32}},
                         stream);
        b.RowCopy(
            {kernels::RowCopyTask{table->data(), ElementType::kFp32, kDim, ids.data(), 2, read.data(), kDim, false}},
            stream);
      }).ok());
  EXPECT_EQ(pooled.ToVector(), values);
  EXPECT_EQ(sequence.ToVector(), values);
  EXPECT_EQ(read.ToVector(), values);
  const auto* const last = table->as<float>() + (kRows - 1) * kDim;
  EXPECT_EQ(last[kDim - 1], 64.0f);
  EXPECT_LT(ResidentBytes() - resident_before, int64_t{64} << 20);
}

}  // namespace
}  // namespace embps::testing
