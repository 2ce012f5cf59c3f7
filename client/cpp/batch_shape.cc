#include "client/cpp/batch_shape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/kjt_check.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps::client {
namespace {

std::string OutputName(const Catalog& catalog, const std::string& feature, const AttachedTable& table) {
  if (catalog.TablesOf(feature).size() < 2) return feature;
  return absl::StrCat(feature, "@", table.table.spec().name());
}

absl::StatusOr<std::vector<BatchOutput>> ListOutputs(const Catalog& catalog, const KjtView& kjt,
                                                     const std::vector<int64_t>& id_begins) {
  std::vector<BatchOutput> outputs;
  int64_t bag_begin = 0;
  for (size_t f = 0; f < kjt.keys.size(); ++f) {
    const absl::Span<const int> tables = catalog.TablesOf(kjt.keys[f]);
    if (tables.empty()) {
      return MakeError(Reason::kBadJaggedLayout,
                       absl::StrCat("keys: feature ", f, " \"", kjt.keys[f], "\" feeds no attached table"));
    }
    for (int table : tables) {
      BatchOutput output;
      output.feature = static_cast<int64_t>(f);
      output.table = catalog.tables()[static_cast<size_t>(table)];
      output.bag_begin = bag_begin;
      output.bag_count = kjt.stride(output.feature);
      output.id_begin = id_begins[f];
      output.id_count = id_begins[f + 1] - id_begins[f];
      if (kjt.weighted && output.table->pooling != Pooling::kSum) {
        return MakeError(Reason::kBadJaggedLayout,
                         absl::StrCat("weights: feature ", f, " \"", kjt.keys[f], "\" of table ", output.table->label,
                                      " pools by ", Name(output.table->pooling), ", which takes no weights"));
      }
      outputs.push_back(std::move(output));
    }
    bag_begin += kjt.stride(static_cast<int64_t>(f));
  }
  return outputs;
}

// Indexes of `outputs` in table-config order.
std::vector<size_t> ConfigOrder(const Catalog& catalog, const KjtView& kjt, const std::vector<BatchOutput>& outputs) {
  absl::flat_hash_map<std::pair<const AttachedTable*, absl::string_view>, size_t> at;
  for (size_t i = 0; i < outputs.size(); ++i) {
    at[{outputs[i].table.get(), kjt.keys[static_cast<size_t>(outputs[i].feature)]}] = i;
  }
  std::vector<size_t> order;
  for (const auto& table : catalog.tables()) {
    for (const std::string& feature : table->features) {
      const auto found = at.find({table.get(), feature});
      if (found != at.end()) order.push_back(found->second);
    }
  }
  return order;
}

SequenceTensor ShapeSequence(const KjtView& kjt, const BatchOutput& output, std::string name) {
  SequenceTensor tensor;
  tensor.name = std::move(name);
  tensor.dim = output.dim();
  const auto lengths =
      kjt.lengths.subspan(static_cast<size_t>(output.bag_begin), static_cast<size_t>(output.bag_count));
  if (kjt.inverse_indices.empty()) {
    tensor.lengths.assign(lengths.begin(), lengths.end());
  } else {
    for (int64_t slot : kjt.inverse_indices[static_cast<size_t>(output.feature)]) {
      tensor.lengths.push_back(lengths[static_cast<size_t>(slot)]);
    }
  }
  tensor.row_count = std::accumulate(tensor.lengths.begin(), tensor.lengths.end(), int64_t{0});
  return tensor;
}

// One matrix [B, stride] in the order given, or one block per output.
void PlacePooled(const KjtView& kjt, const std::vector<size_t>& order, BatchShape* shape) {
  KeyedTensor& pooled = shape->pooled;
  int64_t next = 0;
  for (size_t i : order) {
    BatchOutput& output = shape->outputs[i];
    if (!output.pooled()) continue;
    pooled.names.push_back(OutputName(*shape->catalog, kjt.keys[static_cast<size_t>(output.feature)], *output.table));
    pooled.dims.push_back(output.dim());
    pooled.rows.push_back(pooled.variable_batch ? output.bag_count : shape->row_count);
    output.first_element = next;
    output.row_step = output.dim();
    next += pooled.variable_batch ? output.bag_count * output.dim() : output.dim();
  }
  if (pooled.variable_batch) {
    pooled.element_count = next;
    return;
  }
  for (BatchOutput& output : shape->outputs) output.row_step = next;
  pooled.element_count = next * shape->row_count;
}

}  // namespace

absl::StatusOr<BatchShape> ShapeBatch(std::shared_ptr<const Catalog> catalog, const KjtView& kjt) {
  std::vector<int64_t> id_begins;
  EMBPS_RETURN_IF_ERROR(CheckKjt(kjt, &id_begins));
  BatchShape shape;
  shape.catalog = std::move(catalog);
  EMBPS_ASSIGN_OR_RETURN(shape.outputs, ListOutputs(*shape.catalog, kjt, id_begins));
  shape.expanded = !kjt.inverse_indices.empty();
  shape.pooled.variable_batch = !kjt.stride_per_key.empty() && !shape.expanded;
  if (shape.expanded) {
    shape.row_count = static_cast<int64_t>(kjt.inverse_indices[0].size());
  } else if (!kjt.keys.empty() && kjt.stride_per_key.empty()) {
    shape.row_count = kjt.stride(0);
  }
  const std::vector<size_t> config_order = ConfigOrder(*shape.catalog, kjt, shape.outputs);
  for (size_t i : config_order) {
    BatchOutput& output = shape.outputs[i];
    if (output.table->pooling != Pooling::kNone) continue;
    output.sequence = static_cast<int>(shape.sequences.size());
    shape.sequences.push_back(ShapeSequence(
        kjt, output, OutputName(*shape.catalog, kjt.keys[static_cast<size_t>(output.feature)], *output.table)));
  }
  std::vector<size_t> caller_order(shape.outputs.size());
  std::iota(caller_order.begin(), caller_order.end(), size_t{0});
  PlacePooled(kjt, shape.pooled.variable_batch ? caller_order : config_order, &shape);
  return shape;
}

}  // namespace embps::client
