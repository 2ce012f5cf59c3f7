#include "client/cpp/gradient_parts.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/convert.h"
#include "client/cpp/lookup_merger.h"
#include "client/cpp/row_copy.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"

namespace embps::client {
namespace {

// The caller's row of each row that a sequence part may name: ids that stay, in order. Empty: row r itself.
std::vector<int64_t> KeptIds(const RoutedOutput& routed) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < routed.row_of_id.size(); ++i) {
    if (routed.row_of_id[i] >= 0) kept.push_back(static_cast<int64_t>(i));
  }
  return kept;
}

// Makes a gathered row unmistakably non-finite, so that every node of a table cut by columns leaves it out alike.
void Poison(char* row, DataType type) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CopyElements(&nan, DataType::kFp32, row, type, 1);
}

}  // namespace

absl::StatusOr<GradientParts> GradientParts::Create(const BatchShape& shape, const KjtView& kjt,
                                                    const Gradients& gradients, NonfinitePolicy policy,
                                                    TensorPool* pool) {
  GradientParts parts(shape, policy, pool);
  EMBPS_RETURN_IF_ERROR(parts.CheckSizes(gradients));
  parts.type_ = gradients.dtype;
  for (const BatchOutput& output : shape.outputs) {
    parts.sources_.push_back(parts.SourceOf(output, gradients));
    EMBPS_RETURN_IF_ERROR(parts.CheckFinite(kjt, output, parts.sources_.back()));
  }
  if (!shape.expanded) return parts;
  parts.type_ = DataType::kFp32;
  for (size_t i = 0; i < shape.outputs.size(); ++i) {
    parts.sources_[i] = parts.SumSamples(kjt, shape.outputs[i], parts.sources_[i], gradients.dtype);
    EMBPS_RETURN_IF_ERROR(parts.CheckFinite(kjt, shape.outputs[i], parts.sources_[i]));
  }
  return parts;
}

absl::Status GradientParts::CheckSizes(const Gradients& gradients) const {
  if (gradients.pooled_count != shape_->pooled.element_count) {
    return MakeError(Reason::kDimMismatch,
                     absl::StrCat("gradients: ", gradients.pooled_count,
                                  " pooled elements, the lookup of this batch returns ", shape_->pooled.element_count));
  }
  if (gradients.sequences.size() != shape_->sequences.size()) {
    return MakeError(Reason::kDimMismatch,
                     absl::StrCat("gradients: ", gradients.sequences.size(),
                                  " sequences, the lookup of this batch returns ", shape_->sequences.size()));
  }
  for (size_t i = 0; i < gradients.sequences.size(); ++i) {
    const SequenceTensor& tensor = shape_->sequences[i];
    if (gradients.sequences[i].count == tensor.row_count * tensor.dim) continue;
    return MakeError(
        Reason::kDimMismatch,
        absl::StrCat("gradients: sequence ", i, " \"", tensor.name, "\" has ", gradients.sequences[i].count,
                     " elements, the lookup of this batch returns ", tensor.row_count, " rows of ", tensor.dim));
  }
  return absl::OkStatus();
}

GradientParts::Source GradientParts::SourceOf(const BatchOutput& output, const Gradients& gradients) const {
  if (!output.pooled()) {
    const auto sequence = static_cast<size_t>(output.sequence);
    return {static_cast<const char*>(gradients.sequences[sequence].data), shape_->sequences[sequence].row_count,
            output.dim()};
  }
  const auto* base = static_cast<const char*>(gradients.pooled);
  if (base != nullptr && gradients.pooled_count > 0) base += output.first_element * ItemBytes(gradients.dtype);
  return {base, shape_->expanded ? shape_->row_count : output.bag_count, output.row_step};
}

absl::Status GradientParts::CheckFinite(const KjtView& kjt, const BatchOutput& output, const Source& source) const {
  if (policy_ != NonfinitePolicy::kRefuse) return absl::OkStatus();
  const wire::FeatureLabel label{output.feature, kjt.keys[static_cast<size_t>(output.feature)], output.table->label};
  return wire::ValidateGradients(label, {source.rows, ToProto(type_), source.row_count, output.dim(), source.row_step});
}

GradientParts::Source GradientParts::SumSamples(const KjtView& kjt, const BatchOutput& output, const Source& source,
                                                DataType type) {
  const int64_t dim = output.dim();
  const int64_t rows = output.pooled() ? output.bag_count : output.id_count;
  memory_.push_back(pool_->Allocate(static_cast<size_t>(rows * dim) * sizeof(float)));
  auto* sums = reinterpret_cast<float*>(memory_.back().get());
  if (sums == nullptr) return {nullptr, rows, dim};
  std::memset(sums, 0, static_cast<size_t>(rows * dim) * sizeof(float));
  // A slot of a pooled feature is one row; of a sequence as many as its bag has ids.
  std::vector<int64_t> begins(static_cast<size_t>(output.bag_count) + 1, 0);
  for (size_t bag = 0; bag + 1 < begins.size(); ++bag) {
    begins[bag + 1] = begins[bag] + (output.pooled() ? 1 : kjt.lengths[static_cast<size_t>(output.bag_begin) + bag]);
  }
  const char* from = source.rows;
  for (int64_t slot : kjt.inverse_indices[static_cast<size_t>(output.feature)]) {
    for (int64_t row = begins[static_cast<size_t>(slot)]; row < begins[static_cast<size_t>(slot) + 1]; ++row) {
      AddElements(from, type, sums + row * dim, dim);
      from += source.row_step * ItemBytes(type);
    }
  }
  return {reinterpret_cast<const char*>(sums), rows, dim};
}

wire::GradView GradientParts::ViewOf(int node, const RoutedFeature& part, const RoutedOutput& routed) {
  const BatchOutput& output = shape_->outputs[part.output];
  const Source& source = sources_[part.output];
  const std::vector<ColumnRun> runs = ColumnRunsOf(output.table->layout, node);
  const int32_t dim = output.table->layout.DimOf(node);
  const int64_t item = ItemBytes(type_);
  const bool drops_alike = policy_ == NonfinitePolicy::kDropRows && output.table->layout.columns_split_over_nodes();
  const std::vector<int64_t> kept = output.pooled() ? std::vector<int64_t>() : KeptIds(routed);
  const bool all_rows = part.rows.empty() && (routed.row_of_id.empty() || output.pooled());
  wire::GradView view{nullptr, ToProto(type_), part.row_count, dim, dim};
  if (part.row_count == 0) return view;
  if (all_rows && runs.size() == 1 && !drops_alike) {
    view.data = source.rows + runs[0].begin * item;
    view.row_stride = source.row_step;
    return view;
  }
  memory_.push_back(pool_->Allocate(static_cast<size_t>(part.row_count * dim * item)));
  char* to = memory_.back().get();
  view.data = to;
  for (int64_t r = 0; r < part.row_count; ++r) {
    int64_t row = part.rows.empty() ? r : part.rows[static_cast<size_t>(r)];
    if (!kept.empty()) row = kept[static_cast<size_t>(row)];
    const char* from = source.rows + row * source.row_step * item;
    char* const row_begin = to;
    for (const ColumnRun& run : runs) {
      CopyElements(from + run.begin * item, type_, to, type_, run.count);
      to += run.count * item;
    }
    if (drops_alike && !AllFinite(from, type_, output.dim())) Poison(row_begin, type_);
  }
  return view;
}

}  // namespace embps::client
