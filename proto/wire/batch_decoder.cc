#include "proto/wire/batch_decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/checked_copy.h"
#include "proto/wire/decoder_state.h"
#include "proto/wire/jagged_errors.h"
#include "proto/wire/request_checks.h"
#include "proto/wire/tensor_reader.h"

namespace embps::wire {
namespace {

constexpr std::array<absl::string_view, kBulkFieldCount> kTensorNames = {"lengths", "ids", "weights", "bag_sizes",
                                                                         "grads"};
// Gradients of at least this size bypass the cache: they would not stay in it until they are used.
constexpr int64_t kStreamingGradBytes = int64_t{4} << 20;
// So that sums of lengths and sizes of arrays cannot overflow.
constexpr int64_t kMaxBags = int64_t{1} << 28, kMaxIds = int64_t{1} << 34;

}  // namespace

class BatchDecoder::Impl {
 public:
  explicit Impl(const DecodeLimits& limits) {
    state_.limits = limits;
    state_.limits.max_bags = std::min(limits.max_bags, kMaxBags);
    state_.limits.max_ids = std::min(limits.max_ids, kMaxIds);
    state_.batch = std::make_shared<DecodedBatch>();
  }

  DecoderState& state() { return state_; }
  const DecoderState& state() const { return state_; }

  absl::Status Place(std::shared_ptr<void> memory);
  absl::Status AppendTensor(int index, const BulkSpans& spans);
  bool complete() const { return stage_ == kBulkFieldCount; }
  absl::Status CheckComplete() const;

 private:
  absl::Status FinishStages();
  absl::Status FinishStage();
  absl::Status PlaceAfterLengths();
  void ExpectGrads();
  absl::Status CheckTotalBytes() const;
  void Copy(int index, const BulkSpans& spans);
  void CopyIds(const BulkSpans& spans);
  void CopyFloats(TensorReader* reader, const BulkSpans& spans, bool grads);

  DecoderState state_;
  std::array<TensorReader, kBulkFieldCount> readers_;
  char* rest_ = nullptr;  // memory beyond lengths and bag_sizes
  int stage_ = -1;        // the tensor that is arriving
  bool streaming_stores_ = false;
};

absl::Status BatchDecoder::Impl::Place(std::shared_ptr<void> memory) {
  EMBPS_CHECK(stage_ == -1 && reinterpret_cast<uintptr_t>(memory.get()) % 64 == 0);
  stage_ = 0;
  auto* bytes = static_cast<char*>(memory.get());
  state_.batch->memory = std::move(memory);
  if (state_.kept != nullptr) {
    PlaceTokenPush(&state_, bytes);
    ExpectGrads();
    stage_ = kGrads;
    EMBPS_RETURN_IF_ERROR(CheckTotalBytes());
  } else {
    rest_ = PlaceLengths(&state_, bytes);
    readers_[kLengths].Expect({{state_.batch->bag_count, 8}});
  }
  return FinishStages();
}

// Moves past every tensor that is complete, empty ones included.
absl::Status BatchDecoder::Impl::FinishStages() {
  while (stage_ < kBulkFieldCount && readers_[static_cast<size_t>(stage_)].complete()) {
    EMBPS_RETURN_IF_ERROR(FinishStage());
    ++stage_;
  }
  return absl::OkStatus();
}

absl::Status BatchDecoder::Impl::FinishStage() {
  switch (stage_) {
    case kLengths:
      EMBPS_RETURN_IF_ERROR(FinishLengths(&state_));
      return PlaceAfterLengths();
    case kIds:
      return FinishIds(&state_);
    case kWeights:
      return FinishWeights(&state_);
    case kBagSizes:
      return FinishBagSizes(&state_);
    default:
      return absl::OkStatus();
  }
}

absl::Status BatchDecoder::Impl::PlaceAfterLengths() {
  const DecodedBatch& batch = *state_.batch;
  std::vector<TensorSegment> ids, weights;
  int64_t grad_elements = 0;
  for (const FeatureSlice& feature : batch.features) {
    const TableSlice& table = state_.TableOf(feature);
    ids.push_back({feature.id_count, table.id_bytes});
    if (batch.weighted) weights.push_back({feature.id_count, 4});
    grad_elements += (feature.pooled() ? feature.bag_count : feature.id_count) * table.dim;
  }
  readers_[kIds].Expect(std::move(ids));
  readers_[kWeights].Expect(std::move(weights));
  readers_[kBagSizes].Expect({{state_.split_bag_count, 8}});
  if (state_.push) readers_[kGrads].Expect({{grad_elements, DataTypeBytes(state_.grad_type)}});
  // Memory was bounded by the declared bytes: nothing may be placed before they are known to be right.
  EMBPS_RETURN_IF_ERROR(CheckTotalBytes());
  PlaceTables(&state_, rest_);
  if (state_.push) ExpectGrads();
  return absl::OkStatus();
}

void BatchDecoder::Impl::ExpectGrads() {
  std::vector<TensorSegment> grads;
  int64_t bytes = 0;
  for (const FeatureSlice& feature : state_.batch->features) {
    grads.push_back({feature.slot_count * state_.TableOf(feature).dim, DataTypeBytes(state_.grad_type)});
    bytes += grads.back().items * 4;
  }
  readers_[kGrads] = TensorReader();
  readers_[kGrads].Expect(std::move(grads));
  streaming_stores_ = bytes >= kStreamingGradBytes;
}

absl::Status BatchDecoder::Impl::CheckTotalBytes() const {
  int64_t bytes = 0;
  for (const TensorReader& reader : readers_) bytes += reader.expected_bytes();
  if (state_.total_bytes == 0 || state_.total_bytes == bytes) return absl::OkStatus();
  return BadSize("header.total_bytes", state_.total_bytes, bytes, "bytes", "features, lengths and id_count");
}

absl::Status BatchDecoder::Impl::AppendTensor(int index, const BulkSpans& spans) {
  EMBPS_CHECK(stage_ >= 0);
  if (spans.bytes == 0) return absl::OkStatus();
  const absl::string_view name = kTensorNames[static_cast<size_t>(index)];
  if (index > stage_) {
    const TensorReader& missing = readers_[static_cast<size_t>(stage_)];
    return MakeError(Reason::kBadJaggedLayout,
                     absl::StrCat(name, ": sent before the end of ", kTensorNames[static_cast<size_t>(stage_)], ", ",
                                  missing.arrived_bytes(), " of its ", missing.expected_bytes(), " bytes arrived"));
  }
  TensorReader& reader = readers_[static_cast<size_t>(index)];
  const auto bytes = static_cast<int64_t>(spans.bytes);
  if (bytes > reader.expected_bytes() - reader.arrived_bytes()) {
    return BadSize(name, reader.arrived_bytes() + bytes, reader.expected_bytes(), "bytes",
                   state_.kept != nullptr ? "lookup_token stands for all but grads" : "features, lengths and id_count");
  }
  Copy(index, spans);
  return FinishStages();
}

void BatchDecoder::Impl::Copy(int index, const BulkSpans& spans) {
  TensorReader& reader = readers_[static_cast<size_t>(index)];
  switch (index) {
    case kLengths:
      reader.Append(spans, [&](size_t, int64_t item, const char* source, size_t count) {
        state_.bad_lengths |=
            !CopyLengths(source, count, state_.batch->id_count, state_.lengths + item, &state_.length_sum);
      });
      break;
    case kIds:
      CopyIds(spans);
      break;
    case kBagSizes:
      reader.Append(spans, [&](size_t, int64_t item, const char* source, size_t count) {
        std::copy_n(source, count * sizeof(int64_t), reinterpret_cast<char*>(state_.bag_sizes + item));
      });
      break;
    default:
      CopyFloats(&reader, spans, index == kGrads);
  }
}

void BatchDecoder::Impl::CopyIds(const BulkSpans& spans) {
  readers_[kIds].Append(spans, [&](size_t f, int64_t item, const char* source, size_t count) {
    const FeatureSlice& feature = state_.batch->features[f];
    const TableSlice& table = state_.TableOf(feature);
    int64_t* out = state_.ArraysOf(feature).ids + feature.id_begin + item;
    const int64_t rows = table.row_end - table.row_begin;
    const bool good = table.id_bytes == 8 ? CopyIds64(source, count, table.row_begin, rows, out)
                                          : CopyIds32(source, count, table.row_begin, rows, out);
    state_.bad_ids[f] |= static_cast<uint8_t>(!good);
  });
}

void BatchDecoder::Impl::CopyFloats(TensorReader* reader, const BulkSpans& spans, bool grads) {
  const bool streaming = grads && streaming_stores_;
  std::vector<uint8_t>& bad = grads ? state_.bad_grads : state_.bad_weights;
  reader->Append(spans, [&](size_t f, int64_t item, const char* source, size_t count) {
    const FeatureSlice& feature = state_.batch->features[f];
    const TableSlice& table = state_.TableOf(feature);
    float* out =
        grads ? table.grads + feature.slot_begin * table.dim : state_.ArraysOf(feature).weights + feature.id_begin;
    const v1::DataType type = grads ? state_.grad_type : v1::DATA_TYPE_FP32;
    bad[f] |= static_cast<uint8_t>(!CopyFinite(source, count, type, streaming, out + item));
  });
  if (streaming) FlushStores();
}

absl::Status BatchDecoder::Impl::CheckComplete() const {
  if (complete()) return absl::OkStatus();
  const TensorReader& reader = readers_[static_cast<size_t>(stage_)];
  return BadSize(kTensorNames[static_cast<size_t>(stage_)], reader.arrived_bytes(), reader.expected_bytes(), "bytes",
                 "the request ended here");
}

BatchDecoder::BatchDecoder(const DecodeLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
BatchDecoder::~BatchDecoder() = default;
BatchDecoder::BatchDecoder(BatchDecoder&&) noexcept = default;
BatchDecoder& BatchDecoder::operator=(BatchDecoder&&) noexcept = default;

absl::Status BatchDecoder::Begin(const v1::LookupHeader& header, const TableResolver& resolver) {
  return BeginLookup(header, resolver, &impl_->state());
}

absl::Status BatchDecoder::Begin(const v1::PushGradHeader& header, const TableResolver& resolver,
                                 std::shared_ptr<const DecodedBatch> kept) {
  impl_->state().kept = std::move(kept);
  return BeginPush(header, resolver, &impl_->state());
}

int64_t BatchDecoder::memory_bytes() const { return ArenaBytes(impl_->state()); }
int64_t BatchDecoder::output_elements() const { return OutputElements(layout()); }
const DecodedBatch& BatchDecoder::layout() const { return *impl_->state().batch; }

absl::Status BatchDecoder::Allocate(const AllocateFn& allocate) {
  EMBPS_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, allocate(memory_bytes()));
  return impl_->Place(std::move(memory));
}

absl::Status BatchDecoder::Append(const BulkMessage& frame) {
  for (int i = 0; i < kBulkFieldCount; ++i) EMBPS_RETURN_IF_ERROR(impl_->AppendTensor(i, frame.bulk(i)));
  return absl::OkStatus();
}

bool BatchDecoder::complete() const { return impl_->complete(); }
absl::Status BatchDecoder::CheckComplete() const { return impl_->CheckComplete(); }

absl::StatusOr<std::shared_ptr<DecodedBatch>> BatchDecoder::Finish() {
  EMBPS_RETURN_IF_ERROR(impl_->CheckComplete());
  EMBPS_RETURN_IF_ERROR(FinishBatch(&impl_->state()));
  return impl_->state().batch;
}

}  // namespace embps::wire
