#include "tests/fuzz/wire_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/base/float16.h"
#include "proto/base/status_macros.h"

namespace embps::wire {
namespace {

constexpr int64_t kGuardBytes = 256;
constexpr char kGuard = 0x5a;

int64_t Below(Random& random, int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); }

template <class T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendId(Random& random, const TableInfo& table, bool bad, std::string* out) {
  int64_t id = table.row_begin + Below(random, std::max<int64_t>(1, table.row_end - table.row_begin));
  if (bad) {
    const int64_t choices[] = {-1, -2, table.row_count, table.row_count + 7, INT32_MAX, INT32_MIN};
    id = choices[Below(random, 6)];
  }
  table.id_type == v1::ID_TYPE_INT32 ? Append(out, static_cast<int32_t>(id)) : Append(out, id);
}

template <class Request>
void FillIds(Random& random, const CaseOptions& options, Request* request) {
  auto* header = request->mutable_header();
  header->set_weighted(Below(random, 3) == 0);
  uint64_t id_count = 0;
  for (int64_t f = Below(random, options.max_features + 1); f > 0; --f) {
    v1::Feature* feature = header->add_features();
    const uint64_t uid = 1 + random() % 4;
    const TableInfo& table = *CaseTable(uid);
    feature->set_table_uid(uid);
    feature->set_placement_version(table.placement_version);
    feature->set_batch_size(static_cast<uint32_t>(Below(random, options.max_batch + 1)));
    feature->set_dim(table.dim);
    feature->set_id_type(table.id_type);
    const auto pooling = header->weighted() ? v1::POOLING_SUM : static_cast<v1::Pooling>(1 + random() % 3);
    feature->set_pooling(pooling == v1::POOLING_NONE && !options.sequences ? v1::POOLING_MEAN : pooling);
    feature->set_split_bags(feature->pooling() != v1::POOLING_NONE && Below(random, 3) == 0);
    for (uint32_t bag = 0; bag < feature->batch_size(); ++bag) {
      const int64_t length = std::max<int64_t>(0, Below(random, 6) - 1);
      Append(request->mutable_lengths(), length);
      id_count += static_cast<uint64_t>(length);
      if (feature->split_bags()) Append(request->mutable_bag_sizes(), length + Below(random, 3));
      for (int64_t i = 0; i < length; ++i) {
        AppendId(random, table, options.bad_ids && Below(random, 4) == 0, request->mutable_ids());
        if (header->weighted()) Append(request->mutable_weights(), static_cast<float>(Below(random, 100)) / 8 - 5);
      }
    }
  }
  header->set_id_count(id_count);
  if (options.bad_ids) header->set_out_of_range_policy(v1::OUT_OF_RANGE_POLICY_DROP);
}

void AppendGrad(Random& random, v1::DataType type, bool bad, std::string* out) {
  float value = (static_cast<float>(Below(random, 2001)) - 1000) / 64;
  if (Below(random, 8) == 0) value *= 0x1p-20f;  // subnormal as fp16
  if (bad) value = Below(random, 2) == 0 ? std::numeric_limits<float>::quiet_NaN() : -HUGE_VALF;
  if (type == v1::DATA_TYPE_FP16) {
    Append(out, FloatToHalf(value));
  } else if (type == v1::DATA_TYPE_BF16) {
    Append(out, FloatToBfloat(value));
  } else {
    Append(out, value);
  }
}

template <class T>
std::string DifferentArray(absl::string_view name, const T* actual, int64_t count, const std::vector<T>& expected) {
  if (count != static_cast<int64_t>(expected.size())) {
    return absl::StrCat(name, ": ", count, " entries, expected ", expected.size(), "; ");
  }
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(actual + i, &expected[static_cast<size_t>(i)], sizeof(T)) == 0) continue;
    return absl::StrCat(name, "[", i, "] is ", actual[i], ", expected ", expected[static_cast<size_t>(i)], "; ");
  }
  return "";
}

template <class Request, class Begin>
absl::StatusOr<std::shared_ptr<DecodedBatch>> DecodeImpl(const Request& request, int frames, Random& random,
                                                         GuardedMemory* memory, Begin begin) {
  BatchDecoder decoder(CaseLimits());
  EMBPS_RETURN_IF_ERROR(begin(&decoder));
  EMBPS_RETURN_IF_ERROR(decoder.Allocate(memory->allocator()));
  EMBPS_RETURN_IF_ERROR(AppendInFrames(&decoder, BulkOf(request), frames, random));
  return decoder.Finish();
}

}  // namespace

const TableInfo* CaseTable(uint64_t table_uid) {
  static const TableInfo tables[] = {
      {"default/wide", 50, 16, v1::ID_TYPE_INT64, 7, 0, 50},
      {"default/narrow", 9, 3, v1::ID_TYPE_INT32, 1, 0, 9},
      {"default/split", 100, 1, v1::ID_TYPE_UNSPECIFIED, 2, 34, 67},
      {"default/one", 1, 33, v1::ID_TYPE_INT32, 3, 0, 1},
      {"default/empty_here", 1, 2, v1::ID_TYPE_INT64, 3, 1, 1},
  };
  return table_uid >= 1 && table_uid <= 5 ? &tables[table_uid - 1] : nullptr;
}

DecodeLimits CaseLimits() { return {.max_features = 16, .max_bags = 1000, .max_ids = 5000}; }

v1::LookupRequest RandomLookup(Random& random, const CaseOptions& options) {
  v1::LookupRequest request;
  FillIds(random, options, &request);
  return request;
}

v1::PushGradRequest RandomPush(Random& random, const CaseOptions& options) {
  v1::PushGradRequest request;
  FillIds(random, options, &request);
  v1::PushGradHeader* header = request.mutable_header();
  header->set_grad_dtype(static_cast<v1::DataType>(random() % 4));
  if (options.nonfinite) header->set_nonfinite_policy(v1::NONFINITE_POLICY_DROP_ROWS);
  size_t bag = 0;
  for (const v1::Feature& feature : header->features()) {
    int64_t rows = feature.batch_size();
    if (feature.pooling() == v1::POOLING_NONE) {
      rows = 0;
      for (uint32_t b = 0; b < feature.batch_size(); ++b) {
        int64_t length;
        std::memcpy(&length, request.lengths().data() + (bag + b) * 8, 8);
        rows += length;
      }
    }
    bag += feature.batch_size();
    for (int64_t i = 0; i < rows * feature.dim(); ++i) {
      const bool bad = options.nonfinite && Below(random, 10 * feature.dim()) == 0;
      AppendGrad(random, header->grad_dtype(), bad, request.mutable_grads());
    }
  }
  return request;
}

CutBytes::CutBytes(absl::string_view bytes, Random& random, int max_pieces) {
  std::vector<size_t> cuts = {0, bytes.size()};
  for (int64_t i = Below(random, max_pieces); i > 0; --i) cuts.push_back(random() % (bytes.size() + 1));
  std::sort(cuts.begin(), cuts.end());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const size_t shift = random() % 8;
    memory_.push_back(std::make_unique<std::string>(shift, ' '));
    memory_.back()->append(bytes.data() + cuts[i], cuts[i + 1] - cuts[i]);
    pieces_.push_back(absl::string_view(*memory_.back()).substr(shift));
  }
}

AllocateFn GuardedMemory::allocator() {
  return [this](int64_t bytes) -> absl::StatusOr<std::shared_ptr<void>> {
    bytes_ = bytes;
    const auto total = static_cast<size_t>((bytes + 63) / 64 * 64 + kGuardBytes);
    memory_ = std::shared_ptr<char>(static_cast<char*>(std::aligned_alloc(64, total)), std::free);
    std::memset(memory_.get(), 0xee, static_cast<size_t>(bytes));
    std::memset(memory_.get() + bytes, kGuard, kGuardBytes);
    return std::shared_ptr<void>(memory_);
  };
}

bool GuardedMemory::intact() const {
  if (memory_ == nullptr) return true;
  return std::all_of(memory_.get() + bytes_, memory_.get() + bytes_ + kGuardBytes, [](char c) { return c == kGuard; });
}

std::vector<std::string> BulkOf(const v1::LookupRequest& request) {
  return {request.lengths(), request.ids(), request.weights(), request.bag_sizes(), ""};
}
std::vector<std::string> BulkOf(const v1::PushGradRequest& request) {
  return {request.lengths(), request.ids(), request.weights(), request.bag_sizes(), request.grads()};
}

absl::Status AppendInFrames(BatchDecoder* decoder, const std::vector<std::string>& bulk, int frames, Random& random) {
  size_t total = 0;
  for (const std::string& bytes : bulk) total += bytes.size();
  std::vector<size_t> cuts = {0, total};
  for (int i = 1; i < frames; ++i) cuts.push_back(random() % (total + 1));
  std::sort(cuts.begin(), cuts.end());
  for (size_t frame = 0; frame + 1 < cuts.size(); ++frame) {
    BulkMessage message;
    std::vector<std::unique_ptr<CutBytes>> memory;
    size_t begin = 0;  // of the tensor, in all bytes
    for (size_t t = 0; t < bulk.size(); begin += bulk[t].size(), ++t) {
      const size_t from = std::clamp(cuts[frame], begin, begin + bulk[t].size());
      const size_t to = std::clamp(cuts[frame + 1], begin, begin + bulk[t].size());
      memory.push_back(std::make_unique<CutBytes>(absl::string_view(bulk[t]).substr(from - begin, to - from), random));
      message.SetBulk(static_cast<int>(t), {memory.back()->pieces(), to - from});
    }
    EMBPS_RETURN_IF_ERROR(decoder->Append(message));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<DecodedBatch>> Decode(const v1::LookupRequest& request, int frames, Random& random,
                                                     GuardedMemory* memory) {
  return DecodeImpl(request, frames, random, memory,
                    [&](BatchDecoder* decoder) { return decoder->Begin(request.header(), CaseTable); });
}
absl::StatusOr<std::shared_ptr<DecodedBatch>> Decode(const v1::PushGradRequest& request, int frames, Random& random,
                                                     GuardedMemory* memory, std::shared_ptr<const DecodedBatch> kept) {
  return DecodeImpl(request, frames, random, memory,
                    [&](BatchDecoder* decoder) { return decoder->Begin(request.header(), CaseTable, kept); });
}

std::string Difference(const DecodedBatch& batch, const ReferenceBatch& expected, bool push) {
  std::string text;
  const auto compare = [&](absl::string_view name, int64_t a, int64_t b) {
    if (a != b) absl::StrAppend(&text, name, ": ", a, ", expected ", b, "; ");
  };
  compare("tables", static_cast<int64_t>(batch.tables.size()), static_cast<int64_t>(expected.tables.size()));
  compare("features", static_cast<int64_t>(batch.features.size()), static_cast<int64_t>(expected.features.size()));
  compare("dropped_ids", batch.dropped_ids, expected.dropped_ids);
  compare("pruned_ids", batch.pruned_ids, expected.pruned_ids);
  compare("marked_ids", batch.marked_ids, expected.marked_ids);
  compare("dropped_rows", batch.dropped_rows, expected.dropped_rows);
  absl::StrAppend(&text, DifferentArray("lengths", batch.lengths, batch.bag_count, expected.lengths));
  if (!text.empty()) return text;
  for (size_t f = 0; f < batch.features.size(); ++f) {
    const FeatureSlice& a = batch.features[f];
    const ReferenceFeature& b = expected.features[f];
    compare("slot_begin", a.slot_begin, b.slot_begin);
    compare("slot_count", a.slot_count, b.slot_count);
    compare("id_begin", a.id_begin, b.id_begin);
    compare("id_count", a.id_count, b.id_count);
  }
  for (size_t t = 0; t < batch.tables.size(); ++t) {
    const TableSlice& a = batch.tables[t];
    const ReferenceTable& b = expected.tables[t];
    if (a.table_uid != b.table_uid || a.features != b.features) absl::StrAppend(&text, "table ", t, " differs; ");
    absl::StrAppend(&text, DifferentArray("offsets", a.offsets, a.slot_count + 1, b.offsets));
    absl::StrAppend(&text, DifferentArray("ids", a.ids, a.id_count, b.ids));
    if (a.weights != nullptr) absl::StrAppend(&text, DifferentArray("weights", a.weights, a.id_count, b.weights));
    const int64_t divisors = a.divisors == nullptr ? 0 : a.slot_count;
    absl::StrAppend(&text, DifferentArray("divisors", a.divisors, divisors, b.divisors));
    if (push) absl::StrAppend(&text, DifferentArray("grads", a.grads, a.slot_count * a.dim, b.grads));
  }
  return text;
}

}  // namespace embps::wire
