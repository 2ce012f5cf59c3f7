#include "tests/fuzz/reference_decode.h"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "proto/base/error.h"
#include "proto/base/float16.h"
#include "proto/base/status_macros.h"

namespace embps::wire {
namespace {

absl::Status Bad(Reason reason) { return MakeError(reason, "reference"); }

// A request as plain data; `grads` is empty for lookups.
struct Input {
  bool push = false;
  std::vector<v1::Feature> features;
  uint64_t id_count = 0, total_bytes = 0;
  bool weighted = false;
  bool drop = false, drop_rows = false;
  bool narrow_output = false;
  v1::DataType grad_type = v1::DATA_TYPE_FP32;
  std::string lengths, ids, weights, bag_sizes, grads;
};

template <class T>
T At(const std::string& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

bool KnownType(v1::DataType type) { return v1::DataType_IsValid(type); }

absl::Status CheckFeature(const v1::Feature& feature, const TableInfo* table, const Input& in) {
  if (table == nullptr) return Bad(Reason::kTableNotFound);
  if (feature.placement_version() != table->placement_version) return Bad(Reason::kPlanStale);
  if (feature.dim() != table->dim) return Bad(Reason::kDimMismatch);
  const auto width = [](v1::IdType type) { return type == v1::ID_TYPE_UNSPECIFIED ? v1::ID_TYPE_INT64 : type; };
  if (width(feature.id_type()) != width(table->id_type)) return Bad(Reason::kDtypeUnsupported);
  if (!v1::Pooling_IsValid(feature.pooling()) || feature.pooling() == v1::POOLING_UNSPECIFIED) {
    return Bad(Reason::kBadJaggedLayout);
  }
  if (in.weighted && feature.pooling() != v1::POOLING_SUM) return Bad(Reason::kBadJaggedLayout);
  if (feature.split_bags() && feature.pooling() == v1::POOLING_NONE) return Bad(Reason::kBadJaggedLayout);
  if (feature.split_bags() && in.narrow_output) return Bad(Reason::kDtypeUnsupported);
  return absl::OkStatus();
}

// One id or slot as it is kept in plain lists until the end.
struct Slot {
  std::vector<int64_t> ids;
  std::vector<float> weights;
  int64_t divisor = 1;
  std::vector<float> grads;
};

float GradAt(const Input& in, size_t index) {
  if (in.grad_type == v1::DATA_TYPE_FP16) return HalfToFloat(At<uint16_t>(in.grads, index));
  if (in.grad_type == v1::DATA_TYPE_BF16) return BfloatToFloat(At<uint16_t>(in.grads, index));
  return At<float>(in.grads, index);
}

class Decoding {
 public:
  Decoding(const Input& in, const DecodeLimits& limits) : in_(in), limits_(limits) {}

  absl::StatusOr<ReferenceBatch> Run(const TableResolver& resolver) {
    EMBPS_RETURN_IF_ERROR(Header(resolver));
    EMBPS_RETURN_IF_ERROR(Lengths());
    EMBPS_RETURN_IF_ERROR(Ids());
    EMBPS_RETURN_IF_ERROR(Weights());
    EMBPS_RETURN_IF_ERROR(BagSizes());
    BuildSlots();
    EMBPS_RETURN_IF_ERROR(Grads());
    Assemble();
    return batch_;
  }

 private:
  absl::Status Header(const TableResolver& resolver) {
    if (in_.features.size() > static_cast<size_t>(limits_.max_features)) return Bad(Reason::kBadJaggedLayout);
    if (in_.id_count > static_cast<uint64_t>(limits_.max_ids)) return Bad(Reason::kBadJaggedLayout);
    for (const v1::Feature& feature : in_.features) bags_ += feature.batch_size();
    if (bags_ > static_cast<uint64_t>(limits_.max_bags)) return Bad(Reason::kBadJaggedLayout);
    if (in_.total_bytes >> 63) return Bad(Reason::kBadJaggedLayout);
    for (const v1::Feature& feature : in_.features) {
      const TableInfo* info = resolver(feature.table_uid());
      EMBPS_RETURN_IF_ERROR(CheckFeature(feature, info, in_));
      infos_.push_back(*info);
    }
    return absl::OkStatus();
  }

  absl::Status Lengths() {
    if (in_.lengths.size() != bags_ * 8) return Bad(Reason::kBadJaggedLayout);
    __int128 sum = 0;
    size_t entry = 0;
    uint64_t total = in_.lengths.size();
    for (size_t f = 0; f < in_.features.size(); ++f) {
      feature_lengths_.emplace_back();
      int64_t count = 0;
      for (uint32_t bag = 0; bag < in_.features[f].batch_size(); ++bag, ++entry) {
        const auto length = At<int64_t>(in_.lengths, entry);
        if (length < 0) return Bad(Reason::kBadJaggedLayout);
        sum += length;
        if (sum > static_cast<__int128>(in_.id_count)) return Bad(Reason::kBadJaggedLayout);
        feature_lengths_[f].push_back(length);
        batch_.lengths.push_back(length);
        count += length;
      }
      id_counts_.push_back(count);
      const bool pooled = in_.features[f].pooling() != v1::POOLING_NONE;
      const int64_t slots = pooled ? in_.features[f].batch_size() : count;
      total += static_cast<uint64_t>(count) * IdBytes(f) + (in_.weighted ? count * 4 : 0);
      if (in_.features[f].split_bags()) total += in_.features[f].batch_size() * uint64_t{8};
      grad_items_ += static_cast<uint64_t>(slots * infos_[f].dim);
    }
    if (sum != static_cast<__int128>(in_.id_count)) return Bad(Reason::kBadJaggedLayout);
    if (in_.push) total += grad_items_ * GradBytes();
    if (in_.total_bytes != 0 && in_.total_bytes != total) return Bad(Reason::kBadJaggedLayout);
    return absl::OkStatus();
  }

  absl::Status Ids() {
    size_t bytes = 0;
    for (size_t f = 0; f < infos_.size(); ++f) bytes += static_cast<size_t>(id_counts_[f]) * IdBytes(f);
    if (in_.ids.size() != bytes) return Bad(Reason::kBadJaggedLayout);
    const char* at = in_.ids.data();
    bool bad = false, misrouted = false;
    for (size_t f = 0; f < infos_.size(); ++f) {
      const TableInfo& info = infos_[f];
      for (int64_t i = 0; i < id_counts_[f]; ++i, at += IdBytes(f)) {
        int64_t id;
        if (IdBytes(f) == 4) {
          int32_t narrow;
          std::memcpy(&narrow, at, 4);
          id = narrow;
        } else {
          std::memcpy(&id, at, 8);
        }
        if (id < 0 || id >= info.row_count) {
          bad = true;
          ++(id == -1 ? batch_.pruned_ids : batch_.dropped_ids);
          id = -1;
        } else if (id < info.row_begin || id >= info.row_end) {
          misrouted = true;
        }
        ids_.push_back(id);
      }
    }
    if (bad && !in_.drop) return Bad(Reason::kIdOutOfRange);
    return misrouted ? Bad(Reason::kBadJaggedLayout) : absl::OkStatus();
  }

  absl::Status Weights() {
    if (in_.weights.size() != (in_.weighted ? in_.id_count * 4 : 0)) return Bad(Reason::kBadJaggedLayout);
    for (size_t i = 0; i < in_.weights.size() / 4; ++i) {
      if (!std::isfinite(At<float>(in_.weights, i))) return Bad(Reason::kBadJaggedLayout);
    }
    return absl::OkStatus();
  }

  absl::Status BagSizes() {
    size_t entry = 0;
    size_t expected = 0;
    for (const v1::Feature& feature : in_.features) expected += feature.split_bags() ? feature.batch_size() : 0;
    if (in_.bag_sizes.size() != expected * 8) return Bad(Reason::kBadJaggedLayout);
    for (size_t f = 0; f < in_.features.size(); ++f) {
      bag_sizes_.emplace_back();
      if (!in_.features[f].split_bags()) continue;
      for (int64_t length : feature_lengths_[f]) {
        bag_sizes_[f].push_back(At<int64_t>(in_.bag_sizes, entry++));
        if (bag_sizes_[f].back() < length) return Bad(Reason::kBadJaggedLayout);
      }
    }
    return absl::OkStatus();
  }

  void BuildSlots() {
    size_t at = 0;
    for (size_t f = 0; f < in_.features.size(); ++f) {
      slots_.emplace_back();
      const bool pooled = in_.features[f].pooling() != v1::POOLING_NONE;
      for (size_t bag = 0; bag < feature_lengths_[f].size(); ++bag) {
        Slot slot;
        int64_t taken = 0;
        for (int64_t j = 0; j < feature_lengths_[f][bag]; ++j, ++at) {
          const bool gone = ids_[at] == -1 && (pooled || in_.push);
          if (gone) ++taken;
          if (!gone) slot.ids.push_back(ids_[at]);
          if (!gone && in_.weighted) slot.weights.push_back(At<float>(in_.weights, at));
          if (pooled) continue;
          batch_.marked_ids += !gone && ids_[at] == -1 ? 1 : 0;
          slots_[f].push_back(slot);
          slot = {};
        }
        if (!pooled) continue;
        if (in_.features[f].pooling() == v1::POOLING_MEAN) {
          slot.divisor = (in_.features[f].split_bags() ? bag_sizes_[f][bag] : feature_lengths_[f][bag]) - taken;
        }
        slots_[f].push_back(slot);
      }
    }
  }

  absl::Status Grads() {
    if (!in_.push) return absl::OkStatus();
    if (in_.grads.size() != grad_items_ * GradBytes()) return Bad(Reason::kBadJaggedLayout);
    size_t at = 0;
    for (size_t f = 0; f < slots_.size(); ++f) {
      for (Slot& slot : slots_[f]) {
        bool finite = true;
        for (int32_t d = 0; d < infos_[f].dim; ++d) {
          slot.grads.push_back(GradAt(in_, at++));
          finite &= std::isfinite(slot.grads.back());
        }
        if (finite) continue;
        if (!in_.drop_rows) return Bad(Reason::kNonfiniteGradient);
        ++batch_.dropped_rows;
        slot.grads.assign(slot.grads.size(), 0.0f);
        slot.ids.clear();
        slot.weights.clear();
      }
    }
    return absl::OkStatus();
  }

  void Assemble() {
    batch_.features.resize(in_.features.size());
    std::map<uint64_t, size_t> index;
    for (size_t f = 0; f < in_.features.size(); ++f) {
      const uint64_t uid = in_.features[f].table_uid();
      if (index.emplace(uid, batch_.tables.size()).second) {
        batch_.tables.emplace_back();
        batch_.tables.back().table_uid = uid;
        batch_.tables.back().offsets = {0};
      }
      ReferenceTable& table = batch_.tables[index[uid]];
      table.features.push_back(static_cast<int32_t>(f));
    }
    for (ReferenceTable& table : batch_.tables) {
      bool mean = false;
      for (int32_t f : table.features) mean |= in_.features[static_cast<size_t>(f)].pooling() == v1::POOLING_MEAN;
      for (int32_t f : table.features) AppendFeature(static_cast<size_t>(f), mean, &table);
    }
  }

  void AppendFeature(size_t f, bool mean, ReferenceTable* table) {
    ReferenceFeature& feature = batch_.features[f];
    feature.slot_begin = static_cast<int64_t>(table->offsets.size()) - 1;
    feature.slot_count = static_cast<int64_t>(slots_[f].size());
    feature.id_begin = static_cast<int64_t>(table->ids.size());
    for (const Slot& slot : slots_[f]) {
      table->ids.insert(table->ids.end(), slot.ids.begin(), slot.ids.end());
      table->weights.insert(table->weights.end(), slot.weights.begin(), slot.weights.end());
      table->grads.insert(table->grads.end(), slot.grads.begin(), slot.grads.end());
      table->offsets.push_back(static_cast<int64_t>(table->ids.size()));
      if (mean) table->divisors.push_back(slot.divisor);
    }
    feature.id_count = static_cast<int64_t>(table->ids.size()) - feature.id_begin;
  }

  size_t IdBytes(size_t f) const { return infos_[f].id_type == v1::ID_TYPE_INT32 ? 4 : 8; }
  size_t GradBytes() const { return in_.grad_type == v1::DATA_TYPE_FP32 ? 4 : 2; }

  const Input& in_;
  const DecodeLimits& limits_;
  ReferenceBatch batch_;
  uint64_t bags_ = 0;
  uint64_t grad_items_ = 0;
  std::vector<TableInfo> infos_;
  std::vector<std::vector<int64_t>> feature_lengths_, bag_sizes_;
  std::vector<int64_t> id_counts_, ids_;
  std::vector<std::vector<Slot>> slots_;
};

absl::Status CheckRates(const v1::PushGradHeader& header) {
  std::set<uint64_t> named, seen;
  for (const v1::Feature& feature : header.features()) named.insert(feature.table_uid());
  for (const v1::PushLearningRate& rate : header.learning_rates()) {
    const bool good = std::isfinite(rate.learning_rate()) && rate.learning_rate() >= 0 &&
                      named.contains(rate.table_uid()) && seen.insert(rate.table_uid()).second;
    if (!good) return Bad(Reason::kMalformed);
  }
  return absl::OkStatus();
}

template <class Request>
Input Common(const Request& request) {
  Input in;
  in.features.assign(request.header().features().begin(), request.header().features().end());
  in.id_count = request.header().id_count();
  in.total_bytes = request.header().total_bytes();
  in.weighted = request.header().weighted();
  in.drop = request.header().out_of_range_policy() == v1::OUT_OF_RANGE_POLICY_DROP;
  in.lengths = request.lengths();
  in.ids = request.ids();
  in.weights = request.weights();
  in.bag_sizes = request.bag_sizes();
  return in;
}

}  // namespace

absl::StatusOr<ReferenceBatch> ReferenceDecode(const v1::LookupRequest& request, const TableResolver& resolver,
                                               const DecodeLimits& limits) {
  const v1::LookupHeader& header = request.header();
  const size_t session = header.session_id().size();
  if ((session != 0 && session != 16) || (header.want_lookup_token() && session == 0)) return Bad(Reason::kMalformed);
  if (!v1::OutOfRangePolicy_IsValid(header.out_of_range_policy())) return Bad(Reason::kMalformed);
  if (!KnownType(header.output_dtype())) return Bad(Reason::kDtypeUnsupported);
  Input in = Common(request);
  in.narrow_output = header.output_dtype() == v1::DATA_TYPE_FP16 || header.output_dtype() == v1::DATA_TYPE_BF16;
  return Decoding(in, limits).Run(resolver);
}

absl::StatusOr<ReferenceBatch> ReferenceDecode(const v1::PushGradRequest& request, const TableResolver& resolver,
                                               const DecodeLimits& limits) {
  const v1::PushGradHeader& header = request.header();
  const size_t token = header.lookup_token().size();
  const bool good = !header.weight_gradients() && (!header.has_grad_scale() || std::isfinite(header.grad_scale())) &&
                    (token == 0 || token == 16) && v1::OutOfRangePolicy_IsValid(header.out_of_range_policy()) &&
                    v1::NonfinitePolicy_IsValid(header.nonfinite_policy());
  if (!good) return Bad(Reason::kMalformed);
  EMBPS_RETURN_IF_ERROR(CheckRates(header));
  if (!KnownType(header.grad_dtype())) return Bad(Reason::kDtypeUnsupported);
  Input in = Common(request);
  in.push = true;
  in.grads = request.grads();
  in.drop_rows = header.nonfinite_policy() == v1::NONFINITE_POLICY_DROP_ROWS;
  in.grad_type = header.grad_dtype() == v1::DATA_TYPE_UNSPECIFIED ? v1::DATA_TYPE_FP32 : header.grad_dtype();
  return Decoding(in, limits).Run(resolver);
}

}  // namespace embps::wire
