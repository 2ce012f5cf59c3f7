// Header checks: from LookupHeader or PushGradHeader to the features and tables of a DecodedBatch.
#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/wire/decoder_state.h"
#include "proto/wire/jagged_errors.h"
#include "proto/wire/request_checks.h"

namespace embps::wire {
namespace {

// What both headers have.
struct CommonHeader {
  const google::protobuf::RepeatedPtrField<v1::Feature>& features;
  uint64_t id_count;
  uint64_t total_bytes;
  bool weighted;
  v1::OutOfRangePolicy policy;
  bool fp32_output;  // true for pushes
};

std::string Field(int feature, absl::string_view name) {
  return absl::StrCat("header.features[", feature, "].", name, ": ");
}

absl::Status CheckTable(const v1::Feature& feature, int index, const TableInfo* table) {
  if (table == nullptr) {
    return MakeError(Reason::kTableNotFound,
                     absl::StrCat(Field(index, "table_uid"), "no table ", feature.table_uid(), " on this node"),
                     {{"table_uid", absl::StrCat(feature.table_uid())}, {"feature", absl::StrCat(index)}});
  }
  if (feature.placement_version() != table->placement_version) {
    return MakeError(Reason::kPlanStale,
                     absl::StrCat(Field(index, "placement_version"), feature.placement_version(), ", table \"",
                                  table->name, "\" is at ", table->placement_version),
                     {{"table", table->name},
                      {"table_uid", absl::StrCat(feature.table_uid())},
                      {"placement_version", absl::StrCat(table->placement_version)}});
  }
  if (feature.dim() != table->dim) {
    return MakeError(Reason::kDimMismatch, absl::StrCat(Field(index, "dim"), feature.dim(), ", table \"", table->name,
                                                        "\" has ", table->dim));
  }
  if (IdTypeOrDefault(feature.id_type()) != IdTypeOrDefault(table->id_type)) {
    return MakeError(Reason::kDtypeUnsupported,
                     absl::StrCat(Field(index, "id_type"), static_cast<int>(feature.id_type()), ", table \"",
                                  table->name, "\" has ", v1::IdType_Name(IdTypeOrDefault(table->id_type))));
  }
  return absl::OkStatus();
}

absl::Status CheckPooling(const v1::Feature& feature, int index, const CommonHeader& header) {
  const auto refuse = [&](absl::string_view name, absl::string_view what) {
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat(Field(index, name), what));
  };
  const v1::Pooling pooling = feature.pooling();
  if (pooling != v1::POOLING_SUM && pooling != v1::POOLING_MEAN && pooling != v1::POOLING_NONE) {
    return refuse("pooling", absl::StrCat(static_cast<int>(pooling), " is not SUM, MEAN or NONE"));
  }
  if (header.weighted && pooling != v1::POOLING_SUM) {
    return refuse("pooling", absl::StrCat(v1::Pooling_Name(pooling), " refuses weights, header.weighted is set"));
  }
  if (!feature.split_bags()) return absl::OkStatus();
  if (pooling == v1::POOLING_NONE) return refuse("split_bags", "a sequence has no bags to split");
  if (header.fp32_output) return absl::OkStatus();
  return MakeError(Reason::kDtypeUnsupported,
                   absl::StrCat(Field(index, "split_bags"), "partial sums are FP32, header.output_dtype must be too"));
}

TableSlice MakeTable(uint64_t uid, const TableInfo& info) {
  TableSlice table;
  table.table_uid = uid;
  table.name = info.name;
  table.dim = info.dim;
  table.id_bytes = IdTypeBytes(info.id_type);
  table.row_count = info.row_count;
  table.row_begin = info.row_begin;
  table.row_end = info.row_end;
  return table;
}

absl::Status CheckCounts(const CommonHeader& header, const DecodeLimits& limits) {
  const auto over = [](absl::string_view field, uint64_t value, int64_t limit) {
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("header.", field, ": ", value, ", the limit is ", limit));
  };
  if (header.features.size() > limits.max_features) {
    return over("features", static_cast<uint64_t>(header.features.size()), limits.max_features);
  }
  if (header.id_count > static_cast<uint64_t>(limits.max_ids)) return over("id_count", header.id_count, limits.max_ids);
  uint64_t bags = 0;
  for (const v1::Feature& feature : header.features) bags += feature.batch_size();
  if (bags > static_cast<uint64_t>(limits.max_bags)) {
    return over("features.batch_size", bags, limits.max_bags);
  }
  if (header.total_bytes > static_cast<uint64_t>(INT64_MAX)) return over("total_bytes", header.total_bytes, INT64_MAX);
  return absl::OkStatus();
}

absl::Status BeginCommon(const CommonHeader& header, const TableResolver& resolver, DecoderState* state) {
  EMBPS_RETURN_IF_ERROR(CheckCounts(header, state->limits));
  state->total_bytes = static_cast<int64_t>(header.total_bytes);
  DecodedBatch& batch = *state->batch;
  batch.weighted = header.weighted;
  batch.out_of_range_policy = PolicyOrDefault(header.policy);
  batch.id_count = static_cast<int64_t>(header.id_count);
  absl::flat_hash_map<uint64_t, int32_t> table_index;
  for (int i = 0; i < header.features.size(); ++i) {
    const v1::Feature& feature = header.features[i];
    const TableInfo* info = resolver(feature.table_uid());
    EMBPS_RETURN_IF_ERROR(CheckTable(feature, i, info));
    EMBPS_RETURN_IF_ERROR(CheckPooling(feature, i, header));
    const auto [entry, inserted] =
        table_index.try_emplace(feature.table_uid(), static_cast<int32_t>(batch.tables.size()));
    if (inserted) batch.tables.push_back(MakeTable(feature.table_uid(), *info));
    FeatureSlice slice;
    slice.table = entry->second;
    slice.pooling = feature.pooling();
    slice.split_bags = feature.split_bags();
    slice.bag_begin = batch.bag_count;
    slice.bag_count = feature.batch_size();
    batch.bag_count += slice.bag_count;
    TableSlice& table = batch.tables[static_cast<size_t>(slice.table)];
    table.features.push_back(i);
    table.has_mean |= slice.pooling == v1::POOLING_MEAN;
    state->bag_size_begins.push_back(state->split_bag_count);
    if (slice.split_bags) state->split_bag_count += slice.bag_count;
    batch.features.push_back(slice);
  }
  const size_t feature_count = batch.features.size();
  state->arrays.resize(batch.tables.size());
  state->id_positions.resize(feature_count);
  state->bad_ids.resize(feature_count);
  state->bad_weights.resize(feature_count);
  state->bad_grads.resize(feature_count);
  return absl::OkStatus();
}

// The push must be about the very batch that the token's lookup decoded.
absl::Status CheckKept(const DecodedBatch& batch, const DecodedBatch& kept) {
  const auto refuse = [](absl::string_view what) {
    return MakeError(Reason::kBadJaggedLayout,
                     absl::StrCat("header.", what, ": differs from the lookup that lookup_token stands for"));
  };
  if (batch.features.size() != kept.features.size()) return refuse("features");
  for (size_t f = 0; f < batch.features.size(); ++f) {
    const FeatureSlice &a = batch.features[f], &b = kept.features[f];
    const bool same =
        a.table == b.table && a.pooling == b.pooling && a.split_bags == b.split_bags && a.bag_count == b.bag_count &&
        batch.tables[static_cast<size_t>(a.table)].table_uid == kept.tables[static_cast<size_t>(b.table)].table_uid;
    if (!same) return refuse(absl::StrCat("features[", f, "]"));
  }
  if (batch.id_count != kept.id_count) return refuse("id_count");
  if (batch.weighted != kept.weighted) return refuse("weighted");
  if (batch.out_of_range_policy != kept.out_of_range_policy) return refuse("out_of_range_policy");
  return absl::OkStatus();
}

// Positions and counts of the kept batch; pointers to its arrays until FinishBatch has to copy.
void TakeKept(const DecodedBatch& kept, DecodedBatch* batch) {
  batch->features = kept.features;
  batch->lengths = kept.lengths;
  batch->dropped_ids = kept.dropped_ids;
  batch->pruned_ids = kept.pruned_ids;
  for (size_t t = 0; t < batch->tables.size(); ++t) {
    TableSlice& table = batch->tables[t];
    const TableSlice& from = kept.tables[t];
    table.slot_count = from.slot_count;
    table.id_count = from.id_count;
    table.offsets = from.offsets;
    table.ids = from.ids;
    table.weights = from.weights;
    table.divisors = from.divisors;
    table.dropped_ids = from.dropped_ids;
    table.pruned_ids = from.pruned_ids;
  }
}

}  // namespace

absl::Status BeginLookup(const v1::LookupHeader& header, const TableResolver& resolver, DecoderState* state) {
  EMBPS_RETURN_IF_ERROR(CheckLookupOptions(header));
  if (DataTypeBytes(header.output_dtype()) == 0) {
    return MakeError(Reason::kDtypeUnsupported,
                     absl::StrCat("header.output_dtype: unknown value ", static_cast<int>(header.output_dtype())));
  }
  const bool fp32 = DataTypeOrDefault(header.output_dtype()) == v1::DATA_TYPE_FP32;
  return BeginCommon({header.features(), header.id_count(), header.total_bytes(), header.weighted(),
                      header.out_of_range_policy(), fp32},
                     resolver, state);
}

absl::Status BeginPush(const v1::PushGradHeader& header, const TableResolver& resolver, DecoderState* state) {
  EMBPS_RETURN_IF_ERROR(CheckPushOptions(header));
  if (DataTypeBytes(header.grad_dtype()) == 0) {
    return MakeError(Reason::kDtypeUnsupported,
                     absl::StrCat("header.grad_dtype: unknown value ", static_cast<int>(header.grad_dtype())));
  }
  state->push = true;
  state->grad_type = DataTypeOrDefault(header.grad_dtype());
  state->nonfinite_policy = PolicyOrDefault(header.nonfinite_policy());
  EMBPS_RETURN_IF_ERROR(BeginCommon({header.features(), header.id_count(), header.total_bytes(), header.weighted(),
                                     header.out_of_range_policy(), true},
                                    resolver, state));
  if (state->kept == nullptr) return absl::OkStatus();
  EMBPS_RETURN_IF_ERROR(CheckKept(*state->batch, *state->kept));
  TakeKept(*state->kept, state->batch.get());
  return absl::OkStatus();
}

}  // namespace embps::wire
