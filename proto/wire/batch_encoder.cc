#include "proto/wire/batch_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "proto/wire/payload_checksum.h"
#include "proto/wire/request_checks.h"

namespace embps::wire {
namespace {

// One stretch of a bulk tensor: the array of one feature.
struct Source {
  enum class Kind { kView, kNarrowIds, kWidenIds, kGradRows };
  Kind kind = Kind::kView;
  const char* data = nullptr;
  int64_t items = 0;       // elements; rows for kGradRows
  int64_t item_bytes = 0;  // on the wire; a whole row for kGradRows
  int64_t step_bytes = 0;  // in memory

  int64_t bytes() const { return items * item_bytes; }
};

// Where the next message starts.
struct Position {
  int tensor = 0;
  size_t source = 0;
  int64_t byte = 0;  // wire bytes of the source that are done
};

template <class T>
const char* Bytes(const T* data) {
  return reinterpret_cast<const char*>(data);
}

Source IdSource(const IdView& ids, int wire_bytes) {
  const auto* data = static_cast<const char*>(ids.data);
  if (ids.id_bytes == wire_bytes) return {Source::Kind::kView, data, ids.count, wire_bytes, wire_bytes};
  const auto kind = wire_bytes == 4 ? Source::Kind::kNarrowIds : Source::Kind::kWidenIds;
  return {kind, data, ids.count, wire_bytes, ids.id_bytes};
}

Source GradSource(const GradView& grads) {
  const auto* data = static_cast<const char*>(grads.data);
  const int64_t element = DataTypeBytes(grads.type), row_bytes = grads.dim * element;
  if (grads.row_stride == grads.dim || grads.row_count <= 1) {
    return {Source::Kind::kView, data, grads.row_count * grads.dim, element, element};
  }
  return {Source::Kind::kGradRows, data, grads.row_count, row_bytes, grads.row_stride * element};
}

// Wire bytes of items [first, first + count) of a source that has to be rearranged.
void Gather(const Source& source, int64_t first, int64_t count, char* out) {
  const char* in = source.data + first * source.step_bytes;
  const auto item_bytes = static_cast<size_t>(source.item_bytes);
  if (source.kind != Source::Kind::kWidenIds) {  // little-endian: the low half of an id comes first
    for (int64_t i = 0; i < count; ++i, in += source.step_bytes, out += item_bytes) std::memcpy(out, in, item_bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i, in += sizeof(int32_t), out += sizeof(int64_t)) {
    int32_t narrow;
    std::memcpy(&narrow, in, sizeof(narrow));
    const int64_t wide = narrow;
    std::memcpy(out, &wide, sizeof(wide));
  }
}

}  // namespace

class RequestEncoder::Impl {
 public:
  template <class Header>
  Impl(Header header, std::vector<FeatureArrays> features, bool ids, bool grads) {
    EMBPS_CHECK(features.size() == static_cast<size_t>(header.features_size()));
    int64_t id_count = 0;
    for (size_t f = 0; f < features.size(); ++f) {
      id_count += features[f].ids.count;
      if (ids) AddIds(features[f], header.features(static_cast<int>(f)), header.weighted());
      if (grads) Add(kGrads, GradSource(features[f].grads));
    }
    for (const std::vector<Source>& sources : tensors_) {
      for (const Source& source : sources) payload_bytes_ += source.bytes();
    }
    header.set_id_count(static_cast<uint64_t>(id_count));
    header.set_total_bytes(static_cast<uint64_t>(payload_bytes_));
    SetHeader(std::move(header));
    SkipEmpty();
  }

  OutMessage Next(int64_t max_payload_bytes);
  bool done() const { return started_ && next_.tensor == kBulkFieldCount; }
  void Rewind() {
    next_ = {};
    started_ = false;
    SkipEmpty();
  }
  int64_t payload_bytes() const { return payload_bytes_; }
  void set_with_checksum(bool with_checksum) { with_checksum_ = with_checksum; }

 private:
  void AddIds(const FeatureArrays& arrays, const v1::Feature& feature, bool weighted) {
    const auto bags = static_cast<int64_t>(arrays.lengths.size());
    EMBPS_CHECK(bags == feature.batch_size());
    Add(kLengths, {Source::Kind::kView, Bytes(arrays.lengths.data()), bags, 8, 8});
    Add(kIds, IdSource(arrays.ids, IdTypeBytes(feature.id_type())));
    if (weighted) Add(kWeights, {Source::Kind::kView, Bytes(arrays.weights), arrays.ids.count, 4, 4});
    if (!feature.split_bags()) return;
    EMBPS_CHECK(arrays.bag_sizes.size() == arrays.lengths.size());
    Add(kBagSizes, {Source::Kind::kView, Bytes(arrays.bag_sizes.data()), bags, 8, 8});
  }
  // A view that goes on where the last one ended extends it.
  void Add(int tensor, const Source& source) {
    if (source.bytes() == 0) return;
    std::vector<Source>& sources = tensors_[static_cast<size_t>(tensor)];
    if (!sources.empty() && source.kind == Source::Kind::kView) {
      Source& last = sources.back();
      if (last.kind == Source::Kind::kView && last.item_bytes == source.item_bytes &&
          last.data + last.bytes() == source.data) {
        last.items += source.items;
        return;
      }
    }
    sources.push_back(source);
  }
  void SetHeader(v1::LookupHeader header) { *lookup_.mutable_header() = std::move(header); }
  void SetHeader(v1::PushGradHeader header) {
    is_push_ = true;
    *push_.mutable_header() = std::move(header);
  }
  void SkipEmpty() {
    while (next_.tensor < kBulkFieldCount && next_.source == tensors_[static_cast<size_t>(next_.tensor)].size()) {
      ++next_.tensor;
      next_.source = 0;
    }
  }
  const Source& SourceAtNext() const { return tensors_[static_cast<size_t>(next_.tensor)][next_.source]; }
  OutPiece TakePiece(int64_t max_bytes);
  template <class Request>
  OutMessage Encode(const Request& first, absl::Span<const OutBulk> bulk) const;

  bool is_push_ = false;
  v1::LookupRequest lookup_;  // the first message without bulk
  v1::PushGradRequest push_;
  std::array<std::vector<Source>, kBulkFieldCount> tensors_;
  int64_t payload_bytes_ = 0;
  bool with_checksum_ = false;
  Position next_;
  bool started_ = false;
};

// At most max_bytes of the source at next_; views may be cut anywhere, gathered sources between items. Empty if not
// even one item fits.
OutPiece RequestEncoder::Impl::TakePiece(int64_t max_bytes) {
  const Source& source = SourceAtNext();
  int64_t bytes = std::min(max_bytes, source.bytes() - next_.byte);
  OutPiece piece;
  if (source.kind == Source::Kind::kView) {
    piece.bytes = {source.data + next_.byte, static_cast<size_t>(bytes)};
  } else {
    const int64_t count = bytes / source.item_bytes;
    if (count == 0) return piece;
    bytes = count * source.item_bytes;
    std::shared_ptr<char[]> copy(new char[static_cast<size_t>(bytes)]);
    Gather(source, next_.byte / source.item_bytes, count, copy.get());
    piece.bytes = {copy.get(), static_cast<size_t>(bytes)};
    piece.owner = std::move(copy);
  }
  next_.byte += bytes;
  if (next_.byte == source.bytes()) {
    next_.byte = 0;
    ++next_.source;
    SkipEmpty();
  }
  return piece;
}

OutMessage RequestEncoder::Impl::Next(int64_t max_payload_bytes) {
  std::vector<OutBulk> bulk;
  int64_t room = max_payload_bytes;
  while (room > 0 && next_.tensor < kBulkFieldCount) {
    const int tensor = next_.tensor;
    OutPiece piece = TakePiece(room);
    // A gradient row wider than a whole frame still has to go out.
    if (piece.bytes.empty() && bulk.empty()) piece = TakePiece(SourceAtNext().item_bytes);
    if (piece.bytes.empty()) break;
    room -= static_cast<int64_t>(piece.bytes.size());
    if (bulk.empty() || bulk.back().index != tensor) bulk.push_back({tensor, {}});
    bulk.back().pieces.push_back(std::move(piece));
  }
  OutMessage message = is_push_ ? Encode(push_, bulk) : Encode(lookup_, bulk);
  started_ = true;
  return message;
}

template <class Request>
OutMessage RequestEncoder::Impl::Encode(const Request& first, absl::Span<const OutBulk> bulk) const {
  Request message;
  if (!started_) message = first;
  if (with_checksum_) message.set_payload_checksum(PayloadChecksum(bulk));
  return EncodeBulkMessage(message, bulk);
}

RequestEncoder::RequestEncoder(v1::LookupHeader header, std::vector<FeatureArrays> features)
    : impl_(std::make_unique<Impl>(std::move(header), std::move(features), true, false)) {}
RequestEncoder::RequestEncoder(v1::PushGradHeader header, std::vector<FeatureArrays> features) {
  const bool ids = header.lookup_token().empty();
  impl_ = std::make_unique<Impl>(std::move(header), std::move(features), ids, true);
}
RequestEncoder::~RequestEncoder() = default;
RequestEncoder::RequestEncoder(RequestEncoder&&) noexcept = default;
RequestEncoder& RequestEncoder::operator=(RequestEncoder&&) noexcept = default;

void RequestEncoder::set_with_checksum(bool with_checksum) { impl_->set_with_checksum(with_checksum); }
int64_t RequestEncoder::payload_bytes() const { return impl_->payload_bytes(); }
OutMessage RequestEncoder::Next(int64_t max_payload_bytes) { return impl_->Next(max_payload_bytes); }
bool RequestEncoder::done() const { return impl_->done(); }
void RequestEncoder::Rewind() { impl_->Rewind(); }

}  // namespace embps::wire
