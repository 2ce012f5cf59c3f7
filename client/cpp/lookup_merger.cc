#include "client/cpp/lookup_merger.h"

#include <cstring>
#include <utility>

#include "client/cpp/row_copy.h"

namespace embps::client {

std::vector<ColumnRun> ColumnRunsOf(const plan::TableLayout& layout, int node) {
  if (layout.type() != v1::SHARDING_TYPE_COLUMN_WISE) return {{0, layout.dim()}};
  std::vector<ColumnRun> runs;
  for (const plan::ShardRange& slice : layout.ColumnSlicesOf(node)) {
    if (!runs.empty() && runs.back().begin + runs.back().count == slice.column_begin) {
      runs.back().count += slice.column_count();
    } else {
      runs.push_back({slice.column_begin, slice.column_count()});
    }
  }
  return runs;
}

LookupMerger::LookupMerger(const BatchShape& shape, const KjtView& kjt, const RoutedBatch& routed, DataType output_type,
                           absl::Span<char> pooled_output, TensorPool* pool)
    : shape_(shape), kjt_(kjt), routed_(routed), output_type_(output_type), pool_(pool) {
  const int64_t item = ItemBytes(output_type);
  if (!pooled_output.empty()) {
    pooled_ = std::shared_ptr<char>(std::shared_ptr<char>(), pooled_output.data());
  } else {
    pooled_ = pool->Allocate(static_cast<size_t>(shape.pooled.element_count * item));
  }
  for (const SequenceTensor& tensor : shape.sequences) {
    sequences_.push_back(pool->Allocate(static_cast<size_t>(tensor.row_count * tensor.dim * item)));
  }
  for (const std::vector<RoutedFeature>& parts : routed.nodes) {
    bool partial_sums = false;
    for (const RoutedFeature& part : parts) {
      const BatchOutput& output = shape.outputs[part.output];
      partial_sums |= output.pooled() && output.table->layout.rows_split_over_nodes();
    }
    node_types_.push_back(partial_sums ? DataType::kFp32 : output_type);
  }
  for (size_t i = 0; i < shape.outputs.size(); ++i) {
    direct_.push_back(IsDirect(i));
    all_direct_ &= direct_.back();
  }
  landings_.resize(routed.nodes.size());
  for (size_t node = 0; node < routed.nodes.size(); ++node) {
    for (const RoutedFeature& part : routed.nodes[node]) landings_[node].push_back(Land(static_cast<int>(node), part));
  }
}

char* LookupMerger::Destination(const BatchOutput& output) const {
  if (!output.pooled()) return sequences_[static_cast<size_t>(output.sequence)].get();
  return pooled_ == nullptr ? nullptr : pooled_.get() + output.first_element * ItemBytes(output_type_);
}

bool LookupMerger::IsDirect(size_t index) const {
  const plan::TableLayout& layout = shape_.outputs[index].table->layout;
  if (shape_.expanded || !routed_.outputs[index].row_of_id.empty() || layout.rows_split_over_nodes()) return false;
  for (int node : layout.nodes()) {
    if (TypeOf(node) != output_type_ || ColumnRunsOf(layout, node).size() != 1) return false;
  }
  return true;
}

LookupMerger::Landing LookupMerger::Land(int node, const RoutedFeature& part) {
  const BatchOutput& output = shape_.outputs[part.output];
  Landing landing;
  landing.dim = output.table->layout.DimOf(node);
  const int64_t item = ItemBytes(TypeOf(node));
  if (direct_[part.output]) {
    const int32_t column = ColumnRunsOf(output.table->layout, node)[0].begin;
    char* base = Destination(output);
    landing.rows = base == nullptr ? nullptr : base + column * item;
    landing.row_step_bytes = (output.pooled() ? output.row_step : output.dim()) * item;
    return landing;
  }
  landing.memory = pool_->Allocate(static_cast<size_t>(part.row_count * landing.dim * item));
  landing.rows = landing.memory.get();
  landing.row_step_bytes = landing.dim * item;
  return landing;
}

std::vector<wire::OutputFeature> LookupMerger::LandingsOf(int node) const {
  std::vector<wire::OutputFeature> features;
  for (size_t i = 0; i < landings_[static_cast<size_t>(node)].size(); ++i) {
    const Landing& landing = LandingOf({node, i});
    features.push_back({FeatureOf({node, i}).row_count, landing.dim, landing.rows, landing.row_step_bytes});
  }
  return features;
}

int64_t LookupMerger::reply_bytes(int node) const {
  int64_t elements = 0;
  for (const wire::OutputFeature& feature : LandingsOf(node)) elements += feature.row_count * feature.dim;
  return elements * ItemBytes(TypeOf(node));
}

LookupMerger::Block LookupMerger::AddParts(absl::Span<const PartRef> parts, int64_t element_count) const {
  const Landing& first = LandingOf(parts[0]);
  auto* sums = reinterpret_cast<float*>(first.rows);
  for (const PartRef& part : parts.subspan(1)) {
    AddElements(reinterpret_cast<const float*>(LandingOf(part).rows), sums, element_count);
  }
  return {first.memory, first.rows, DataType::kFp32};
}

LookupMerger::Block LookupMerger::Assemble(size_t index, absl::Span<const PartRef> parts) const {
  const BatchOutput& output = shape_.outputs[index];
  const int64_t row_count = routed_.outputs[index].row_count;
  const plan::TableLayout& layout = output.table->layout;
  if (output.pooled() && layout.rows_split_over_nodes()) return AddParts(parts, row_count * output.dim());
  if (parts.size() == 1 && LandingOf(parts[0]).dim == output.dim() && FeatureOf(parts[0]).rows.empty()) {
    return {LandingOf(parts[0]).memory, LandingOf(parts[0]).rows, TypeOf(parts[0].node)};
  }
  const int64_t item = ItemBytes(output_type_);
  Block block;
  block.type = output_type_;
  block.memory = pool_->Allocate(static_cast<size_t>(row_count * output.dim() * item));
  block.rows = block.memory.get();
  for (const PartRef& ref : parts) {
    const RoutedFeature& part = FeatureOf(ref);
    const int64_t from_item = ItemBytes(TypeOf(ref.node));
    const std::vector<ColumnRun> runs = ColumnRunsOf(layout, ref.node);
    for (int64_t r = 0; r < part.row_count; ++r) {
      const int64_t row = part.rows.empty() ? r : part.rows[static_cast<size_t>(r)];
      const char* from = LandingOf(ref).rows + r * LandingOf(ref).row_step_bytes;
      for (const ColumnRun& run : runs) {
        char* to = block.memory.get() + (row * output.dim() + run.begin) * item;
        CopyElements(from, TypeOf(ref.node), to, output_type_, run.count);
        from += run.count * from_item;
      }
    }
  }
  return block;
}

void LookupMerger::WritePooled(const BatchOutput& output, const Block& block) const {
  const int64_t rows = shape_.expanded ? shape_.row_count : output.bag_count;
  const int64_t from_step = output.dim() * ItemBytes(block.type);
  const int64_t to_step = output.row_step * ItemBytes(output_type_);
  char* to = Destination(output);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t slot =
        shape_.expanded ? kjt_.inverse_indices[static_cast<size_t>(output.feature)][static_cast<size_t>(row)] : row;
    CopyElements(block.rows + slot * from_step, block.type, to + row * to_step, output_type_, output.dim());
  }
}

void LookupMerger::WriteSequence(const BatchOutput& output, const RoutedOutput& routed, const Block& block) const {
  const int64_t from_step = output.dim() * ItemBytes(block.type);
  const int64_t to_step = output.dim() * ItemBytes(output_type_);
  char* to = Destination(output);
  const auto write = [&](int64_t id) {
    const int64_t row = routed.row_of_id.empty() ? id : routed.row_of_id[static_cast<size_t>(id)];
    if (row < 0) {
      std::memset(to, 0, static_cast<size_t>(to_step));
    } else {
      CopyElements(block.rows + row * from_step, block.type, to, output_type_, output.dim());
    }
    to += to_step;
  };
  if (!shape_.expanded) {
    for (int64_t id = 0; id < output.id_count; ++id) write(id);
    return;
  }
  const auto lengths =
      kjt_.lengths.subspan(static_cast<size_t>(output.bag_begin), static_cast<size_t>(output.bag_count));
  std::vector<int64_t> begins(lengths.size() + 1, 0);
  for (size_t i = 0; i < lengths.size(); ++i) begins[i + 1] = begins[i] + lengths[i];
  for (int64_t slot : kjt_.inverse_indices[static_cast<size_t>(output.feature)]) {
    for (int64_t id = begins[static_cast<size_t>(slot)]; id < begins[static_cast<size_t>(slot) + 1]; ++id) write(id);
  }
}

void LookupMerger::Finish(KeyedTensor* pooled, std::vector<SequenceTensor>* sequences) {
  std::vector<std::vector<PartRef>> parts(shape_.outputs.size());
  for (size_t node = 0; node < landings_.size(); ++node) {
    for (size_t i = 0; i < landings_[node].size(); ++i) {
      parts[routed_.nodes[node][i].output].push_back({static_cast<int>(node), i});
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (direct_[i]) continue;
    const BatchOutput& output = shape_.outputs[i];
    const Block block = Assemble(i, parts[i]);
    if (output.pooled()) {
      WritePooled(output, block);
    } else {
      WriteSequence(output, routed_.outputs[i], block);
    }
  }
  *pooled = shape_.pooled;
  pooled->dtype = output_type_;
  pooled->data = pooled_;
  *sequences = shape_.sequences;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    (*sequences)[i].dtype = output_type_;
    (*sequences)[i].data = sequences_[i];
  }
}

}  // namespace embps::client
