// Reading and writing whole rows, and changing what a table is trained with. Calls are cut so that each fits the unary
// limit both ways.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/client_impl.h"
#include "client/cpp/control_call.h"
#include "client/cpp/convert.h"
#include "client/cpp/methods.h"
#include "proto/base/error.h"
#include "proto/base/status_macros.h"
#include "proto/plan/table_layout.h"
#include "proto/plan/table_spec.h"
#include "proto/wire/jagged_check.h"
#include "proto/wire/payload_checksum.h"

namespace embps {
inline namespace sdk {
namespace {

// Room for tags, lengths and small fields beside the payload of a message.
constexpr int64_t kHeaderRoomBytes = 4096;

absl::string_view BytesOf(const std::vector<int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)};
}

// Rows [width] of `from` picked by place, as bytes.
std::string PickRows(const std::vector<float>& from, int64_t width, absl::Span<const int64_t> places) {
  std::string bytes(places.size() * static_cast<size_t>(width) * sizeof(float), '\0');
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(bytes.data() + i * row_bytes, from.data() + places[i] * width, row_bytes);
  }
  return bytes;
}

// Puts a block [places, width] into columns [column, column + width) of rows `places` of `to` [.., stride].
void PlaceBlock(const char* block, int64_t width, absl::Span<const int64_t> places, int64_t column, int64_t stride,
                std::vector<float>& to) {
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(to.data() + places[i] * stride + column, block + i * row_bytes, row_bytes);
  }
}

// One kind of optimizer state of a table: `per_slice` values wide, one for each column slice, or an element each.
struct StateShape {
  int32_t width = 0;
  bool per_slice = false;
};

StateShape ShapeOfState(int32_t width, int32_t dim, size_t slices) {
  if (width == 0) return {};
  if (width == dim && dim > 1) return {dim, false};
  return {static_cast<int32_t>(slices), true};
}

struct PlacesByNode {
  std::vector<std::vector<int64_t>> places;  // [N] indexes into the ids
};

PlacesByNode SplitPlaces(const plan::TableLayout& layout, int node_count, absl::Span<const int64_t> ids) {
  PlacesByNode split;
  split.places.resize(static_cast<size_t>(node_count));
  for (int node : layout.nodes()) {
    const plan::RowRange rows = layout.RowsOf(node);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (rows.Contains(ids[i])) split.places[static_cast<size_t>(node)].push_back(static_cast<int64_t>(i));
    }
  }
  return split;
}

std::vector<int64_t> PickIds(absl::Span<const int64_t> ids, absl::Span<const int64_t> places) {
  std::vector<int64_t> picked(places.size());
  for (size_t i = 0; i < places.size(); ++i) picked[i] = ids[static_cast<size_t>(places[i])];
  return picked;
}

absl::Status CheckBlock(absl::string_view field, size_t bytes, size_t expected) {
  if (bytes == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("reply: ", field, " has ", bytes, " bytes, expected ", expected));
}

absl::Status CheckWrite(const v1::Table& table, const TableRows& rows) {
  const size_t count = rows.ids.size();
  const int32_t dim = table.spec().dim();
  if (rows.values.size() != count * static_cast<size_t>(dim)) {
    return MakeError(Reason::kDimMismatch,
                     absl::StrCat("values: ", rows.values.size(), " elements for ", count, " rows of ", dim));
  }
  const plan::StateWidths widths = plan::StateWidthsOf(table.spec().optimizer().type(), dim);
  if (rows.state0_width == 0 && rows.state1_width == 0) return absl::OkStatus();
  if (rows.state0_width != widths.state0 || rows.state1_width != widths.state1) {
    return MakeError(Reason::kDimMismatch, absl::StrCat("state widths: ", rows.state0_width, " and ", rows.state1_width,
                                                        ", the table has ", widths.state0, " and ", widths.state1));
  }
  if (rows.state0.size() != count * static_cast<size_t>(widths.state0) ||
      rows.state1.size() != count * static_cast<size_t>(widths.state1)) {
    return MakeError(Reason::kDimMismatch, absl::StrCat("state: ", rows.state0.size(), " and ", rows.state1.size(),
                                                        " elements for ", count, " rows"));
  }
  return absl::OkStatus();
}

// The slices of one reply and where they go.
absl::Status PlaceReply(const v1::ReadRowsResponse& response, const plan::TableLayout& layout,
                        absl::Span<const int64_t> places, const StateShape& shape0, const StateShape& shape1,
                        TableRows* rows) {
  const size_t count = places.size();
  size_t row_at = 0, state0_at = 0, state1_at = 0;
  for (const v1::RowSlice& slice : response.slices()) {
    const auto columns = static_cast<size_t>(slice.column_end() - slice.column_begin());
    const auto slices = layout.column_slices();
    const auto found = std::find_if(slices.begin(), slices.end(), [&](const plan::ShardRange& s) {
      return s.column_begin == slice.column_begin() && s.column_end == slice.column_end();
    });
    if (found == slices.end()) return absl::InternalError("reply: a column slice that the placement does not have");
    const int64_t slice_index = found - slices.begin();
    const size_t row_bytes = count * columns * sizeof(float);
    const size_t state0_bytes = count * static_cast<size_t>(slice.state0_width()) * sizeof(float);
    const size_t state1_bytes = count * static_cast<size_t>(slice.state1_width()) * sizeof(float);
    EMBPS_RETURN_IF_ERROR(CheckBlock("rows", std::min(response.rows().size() - row_at, row_bytes), row_bytes));
    EMBPS_RETURN_IF_ERROR(
        CheckBlock("state0", std::min(response.state0().size() - state0_at, state0_bytes), state0_bytes));
    EMBPS_RETURN_IF_ERROR(
        CheckBlock("state1", std::min(response.state1().size() - state1_at, state1_bytes), state1_bytes));
    const int64_t dim = layout.dim();
    PlaceBlock(response.rows().data() + row_at, static_cast<int64_t>(columns), places, slice.column_begin(), dim,
               rows->values);
    const auto place_state = [&](const std::string& bytes, size_t at, int32_t width, const StateShape& shape,
                                 std::vector<float>& to) {
      if (width == 0 || shape.width == 0) return absl::OkStatus();
      if (width != (shape.per_slice ? 1 : static_cast<int32_t>(columns))) {
        return absl::InternalError("reply: optimizer state of another width");
      }
      PlaceBlock(bytes.data() + at, width, places, shape.per_slice ? slice_index : slice.column_begin(), shape.width,
                 to);
      return absl::OkStatus();
    };
    EMBPS_RETURN_IF_ERROR(place_state(response.state0(), state0_at, slice.state0_width(), shape0, rows->state0));
    EMBPS_RETURN_IF_ERROR(place_state(response.state1(), state1_at, slice.state1_width(), shape1, rows->state1));
    row_at += row_bytes;
    state0_at += state0_bytes;
    state1_at += state1_bytes;
  }
  return absl::OkStatus();
}

// Whether a mutation got its turn. Shared: who sets it may still hold it when the waiting thread goes on.
class Turn {
 public:
  void Set(bool in_time) {
    MutexLock lock(&mu_);
    in_time_ = in_time;
    changed_.NotifyAll();
  }
  bool Wait() {
    MutexLock lock(&mu_);
    while (!in_time_.has_value()) changed_.Wait(&mu_);
    return *in_time_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::optional<bool> in_time_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<TableRows> ClientImpl::ReadRows(absl::string_view name, absl::Span<const int64_t> ids, bool with_state) {
  const client::TimePoint deadline = ControlDeadline();
  EMBPS_ASSIGN_OR_RETURN(const v1::Table table, GetTable(name));
  EMBPS_ASSIGN_OR_RETURN(const plan::TableLayout layout,
                         plan::TableLayout::Create(table.spec(), table.placement(), cluster_->catalog()->cluster()));
  const std::string label = plan::QualifiedName(table.spec());
  wire::FeatureLabel feature;
  feature.table = label;
  EMBPS_RETURN_IF_ERROR(
      wire::ValidateIds(feature, {ids.data(), static_cast<int64_t>(ids.size()), 8}, 0, table.spec().row_count()));
  TableRows rows;
  rows.ids.assign(ids.begin(), ids.end());
  rows.values.resize(ids.size() * static_cast<size_t>(layout.dim()));
  if (with_state) {
    const plan::StateWidths widths = plan::StateWidthsOf(table.spec().optimizer().type(), layout.dim());
    rows.state0_width = ShapeOfState(widths.state0, layout.dim(), layout.column_slices().size()).width;
    rows.state1_width = ShapeOfState(widths.state1, layout.dim(), layout.column_slices().size()).width;
    rows.state0.resize(ids.size() * static_cast<size_t>(rows.state0_width));
    rows.state1.resize(ids.size() * static_cast<size_t>(rows.state1_width));
  }
  const PlacesByNode split = SplitPlaces(layout, cluster_->node_count(), ids);
  for (int node = 0; node < cluster_->node_count(); ++node) {
    EMBPS_RETURN_IF_ERROR(
        ReadRowsOf(node, table, ids, split.places[static_cast<size_t>(node)], with_state, deadline, &rows));
  }
  return rows;
}

absl::Status ClientImpl::ReadRowsOf(int node, const v1::Table& table, absl::Span<const int64_t> ids,
                                    absl::Span<const int64_t> places, bool with_state, client::TimePoint deadline,
                                    TableRows* rows) {
  EMBPS_ASSIGN_OR_RETURN(const plan::TableLayout layout,
                         plan::TableLayout::Create(table.spec(), table.placement(), cluster_->catalog()->cluster()));
  const plan::StateWidths widths = plan::StateWidthsOf(table.spec().optimizer().type(), layout.dim());
  const StateShape shape0 = ShapeOfState(with_state ? widths.state0 : 0, layout.dim(), layout.column_slices().size());
  const StateShape shape1 = ShapeOfState(with_state ? widths.state1 : 0, layout.dim(), layout.column_slices().size());
  const int64_t row_bytes = 8 + 4 * int64_t{layout.dim() + shape0.width + shape1.width};
  const int64_t limit = cluster_->node(node).identity().info.limits.max_unary_bytes - kHeaderRoomBytes;
  const auto chunk = static_cast<size_t>(std::max<int64_t>(1, limit / row_bytes));
  for (size_t begin = 0; begin < places.size(); begin += chunk) {
    const auto some = places.subspan(begin, std::min(chunk, places.size() - begin));
    v1::ReadRowsRequest request;
    request.set_table_uid(table.table_uid());
    request.set_placement_version(table.placement_version());
    request.set_with_state(with_state);
    request.set_ids(std::string(BytesOf(PickIds(ids, some))));
    absl::StatusOr<v1::ReadRowsResponse> response =
        client::CallControl<v1::ReadRowsResponse>(cluster_->node(node), client::kReadRows, request, deadline);
    if (!response.ok()) return cluster_->Diagnose(node, response.status(), deadline);
    EMBPS_RETURN_IF_ERROR(PlaceReply(*response, layout, some, shape0, shape1, rows));
    rows->step = std::max<int64_t>(rows->step, response->step());
  }
  return absl::OkStatus();
}

absl::Status ClientImpl::Mutate(client::TimePoint deadline, const std::function<absl::Status(uint64_t)>& send) {
  const std::shared_ptr<client::MutationQueue> queue = cluster_->mutations();
  const auto turn = std::make_shared<Turn>();
  queue->Enter(&cluster_->scheduler(), deadline, [turn](bool in_time) { turn->Set(in_time); });
  if (!turn->Wait()) return absl::DeadlineExceededError("the deadline passed while earlier pushes were in flight");
  const uint64_t sequence = queue->Open();
  const absl::Status status = send(sequence);
  queue->Settle(sequence);
  queue->Leave();
  return status;
}

void ClientImpl::FillMutation(int node, uint64_t sequence, uint64_t digest, v1::MutationId* mutation) {
  mutation->set_session_id(cluster_->node(node).identity().session_id);
  mutation->set_sequence(sequence);
  mutation->set_first_incomplete(cluster_->mutations()->FirstOpen(sequence));
  mutation->set_push_digest(digest);
}

absl::Status ClientImpl::WriteRows(absl::string_view name, const TableRows& rows) {
  const client::TimePoint deadline = ControlDeadline();
  EMBPS_ASSIGN_OR_RETURN(const v1::Table table, GetTable(name));
  EMBPS_RETURN_IF_ERROR(CheckWrite(table, rows));
  EMBPS_ASSIGN_OR_RETURN(const plan::TableLayout layout,
                         plan::TableLayout::Create(table.spec(), table.placement(), cluster_->catalog()->cluster()));
  const std::string label = plan::QualifiedName(table.spec());
  wire::FeatureLabel feature;
  feature.table = label;
  EMBPS_RETURN_IF_ERROR(wire::ValidateIds(feature, {rows.ids.data(), static_cast<int64_t>(rows.ids.size()), 8}, 0,
                                          table.spec().row_count()));
  std::vector<int64_t> sorted = rows.ids;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return MakeError(Reason::kBadJaggedLayout, absl::StrCat("ids: ", *twice, " is given twice"));
  }
  const PlacesByNode split = SplitPlaces(layout, cluster_->node_count(), rows.ids);
  for (int node = 0; node < cluster_->node_count(); ++node) {
    EMBPS_RETURN_IF_ERROR(WriteRowsOf(node, table, split.places[static_cast<size_t>(node)], rows, deadline));
  }
  return absl::OkStatus();
}

absl::Status ClientImpl::WriteRowsOf(int node, const v1::Table& table, absl::Span<const int64_t> places,
                                     const TableRows& rows, client::TimePoint deadline) {
  const int64_t row_bytes = 8 + 4 * int64_t{table.spec().dim() + rows.state0_width + rows.state1_width};
  const int64_t limit = cluster_->node(node).identity().info.limits.max_unary_bytes - kHeaderRoomBytes;
  const auto chunk = static_cast<size_t>(std::max<int64_t>(1, limit / row_bytes));
  for (size_t begin = 0; begin < places.size(); begin += chunk) {
    const auto some = places.subspan(begin, std::min(chunk, places.size() - begin));
    v1::WriteRowsRequest request;
    request.set_table_uid(table.table_uid());
    request.set_placement_version(table.placement_version());
    request.set_with_state(rows.state0_width + rows.state1_width > 0);
    request.set_ids(std::string(BytesOf(PickIds(rows.ids, some))));
    request.set_rows(PickRows(rows.values, table.spec().dim(), some));
    request.set_state0(PickRows(rows.state0, rows.state0_width, some));
    request.set_state1(PickRows(rows.state1, rows.state1_width, some));
    wire::Digest64 digest;
    for (const std::string* bytes : {&request.ids(), &request.rows(), &request.state0(), &request.state1()}) {
      digest.Update(bytes->data(), bytes->size());
    }
    EMBPS_RETURN_IF_ERROR(Mutate(deadline, [&](uint64_t sequence) {
      FillMutation(node, sequence, digest.value(), request.mutable_mutation());
      const absl::Status status =
          client::CallControl<v1::WriteRowsResponse>(cluster_->node(node), client::kWriteRows, request, deadline)
              .status();
      return status.ok() ? status : cluster_->Diagnose(node, status, deadline);
    }));
  }
  return absl::OkStatus();
}

absl::Status ClientImpl::UpdateTable(absl::string_view name, std::optional<float> learning_rate,
                                     std::optional<int64_t> step) {
  const client::TimePoint deadline = ControlDeadline();
  EMBPS_ASSIGN_OR_RETURN(const v1::Table table, GetTable(name));
  v1::UpdateTableRequest request;
  request.set_table_uid(table.table_uid());
  wire::Digest64 digest;
  if (learning_rate.has_value()) {
    request.set_learning_rate(*learning_rate);
    digest.UpdateValue(*learning_rate);
  }
  if (step.has_value()) {
    request.set_step(*step);
    digest.UpdateValue(*step);
  }
  return Mutate(deadline, [&](uint64_t sequence) {
    for (int node = 0; node < cluster_->node_count(); ++node) {
      FillMutation(node, sequence, digest.value(), request.mutable_mutation());
      const absl::Status status =
          client::CallControl<v1::UpdateTableResponse>(cluster_->node(node), client::kUpdateTable, request, deadline)
              .status();
      if (!status.ok()) return cluster_->Diagnose(node, status, deadline);
    }
    return absl::OkStatus();
  });
}

}  // namespace sdk
}  // namespace embps
