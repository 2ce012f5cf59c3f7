// lookup and push: one feature, typed by hand.
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/tools/commands.h"
#include "proto/base/float16.h"
#include "proto/base/status_macros.h"

namespace embps::tools {
namespace {

KeyedJaggedTensor BatchOf(const BatchArguments& batch) {
  KeyedJaggedTensor kjt;
  kjt.keys = {batch.table};
  kjt.values = batch.ids;
  kjt.lengths = batch.lengths;
  if (kjt.lengths.empty()) kjt.lengths = {static_cast<int64_t>(batch.ids.size())};
  kjt.weights = batch.weights;
  kjt.weighted = !batch.weights.empty();
  return kjt;
}

// The table as a feature of its own name.
absl::StatusOr<TableInfo> Attach(Client& client, const BatchArguments& batch) {
  TableConfig config;
  config.spec.name = batch.table;
  config.pooling = batch.pooling;
  EMBPS_ASSIGN_OR_RETURN(std::vector<TableInfo> tables, client.OpenTables({config}));
  return std::move(tables.front());
}

OutOfRangePolicy PolicyOf(const BatchArguments& batch) {
  return batch.drop_out_of_range ? OutOfRangePolicy::kDrop : OutOfRangePolicy::kError;
}

std::vector<float> ToFloats(const char* data, DataType type, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DataType::kFp32) {
      std::memcpy(&values[i], data + i * sizeof(float), sizeof(float));
      continue;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
    values[i] = type == DataType::kFp16 ? HalfToFloat(bits) : BfloatToFloat(bits);
  }
  return values;
}

// [rows, dim] of the one feature.
struct Rows {
  int64_t dim = 0;
  std::vector<float> values;
};

Rows RowsOf(const LookupResult& result) {
  if (!result.sequences.empty()) {
    const SequenceTensor& sequence = result.sequences.front();
    return {sequence.dim, ToFloats(sequence.data.get(), sequence.dtype, sequence.row_count * sequence.dim)};
  }
  const KeyedTensor& pooled = result.pooled;
  return {pooled.dims.empty() ? 0 : pooled.dims.front(),
          ToFloats(pooled.data.get(), pooled.dtype, pooled.element_count)};
}

Report ReportLookup(const BatchArguments& batch, const LookupResult& result) {
  const Rows rows = RowsOf(result);
  const bool per_id = batch.pooling == Pooling::kNone;
  Report report;
  report.json = {
      {"table", batch.table},  {"pooling", std::string(Name(batch.pooling))}, {"dim", rows.dim},
      {"rows", Json::array()}, {"dropped_ids", result.dropped_ids},           {"pruned_ids", result.pruned_ids},
      {"nodes", Json::array()}};
  TextTable table({per_id ? "ID" : "BAG", "ROW"});
  const size_t dim = static_cast<size_t>(rows.dim);
  for (size_t row = 0; dim > 0 && row < rows.values.size() / dim; ++row) {
    Json values = Json::array();
    std::vector<std::string> texts;
    for (size_t column = 0; column < dim; ++column) {
      values.push_back(FloatJson(rows.values[row * dim + column]));
      texts.push_back(FloatText(rows.values[row * dim + column]));
    }
    report.json["rows"].push_back(std::move(values));
    table.Add({per_id ? absl::StrCat(batch.ids[row]) : absl::StrCat(row), absl::StrJoin(texts, " ")});
  }
  for (const NodeVersion& node : result.nodes) {
    report.json["nodes"].push_back(
        {{"node", node.node}, {"incarnation", Hex(node.incarnation)}, {"version", node.version}});
  }
  report.text = table.ToString();
  const uint64_t left_out = result.dropped_ids + result.pruned_ids;
  if (left_out > 0) absl::StrAppend(&report.text, left_out, " ids outside the table left out\n");
  return report;
}

Json NodePushJson(const NodePush& node) {
  return {{"node", node.node},
          {"status", StatusJson(node.status)},
          {"incarnation", Hex(node.incarnation)},
          {"version", node.version},
          {"rows_updated", node.rows_updated},
          {"duplicate", node.duplicate},
          {"dropped_ids", node.dropped_ids},
          {"pruned_ids", node.pruned_ids},
          {"dropped_rows", node.dropped_rows},
          {"rows_overflowed", node.rows_overflowed},
          {"values_saturated", node.values_saturated},
          {"attempts", node.attempts}};
}

Report ReportPush(const PushOutcome& outcome) {
  Report report;
  report.json = {{"status", StatusJson(outcome.status)}, {"sequence", outcome.sequence}, {"nodes", Json::array()}};
  TextTable table({"NODE", "STATUS", "VERSION", "ROWS UPDATED", "DUPLICATE"});
  std::vector<absl::Status> statuses;
  for (const NodePush& node : outcome.nodes) {
    statuses.push_back(node.status);
    report.json["nodes"].push_back(NodePushJson(node));
    table.Add({absl::StrCat(node.node), StatusText(node.status), absl::StrCat(node.version),
               absl::StrCat(node.rows_updated), node.duplicate ? "yes" : "no"});
  }
  report.exit_code = outcome.ok() ? ExitCode::kOk : ExitCodeOf(statuses);
  report.text = table.ToString();
  return report;
}

}  // namespace

absl::StatusOr<Report> RunLookup(const Arguments& arguments) {
  const BatchArguments& batch = arguments.lookup.batch;
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_RETURN_IF_ERROR(Attach(*client, batch).status());
  LookupOptions options;
  options.output_dtype = arguments.lookup.output_dtype;
  options.out_of_range_policy = PolicyOf(batch);
  const KeyedJaggedTensor kjt = BatchOf(batch);
  EMBPS_ASSIGN_OR_RETURN(const LookupResult result, client->Lookup(kjt, options));
  return ReportLookup(batch, result);
}

absl::StatusOr<Report> RunPush(const Arguments& arguments) {
  const PushArguments& push = arguments.push;
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_ASSIGN_OR_RETURN(const TableInfo table, Attach(*client, push.batch));
  const KeyedJaggedTensor kjt = BatchOf(push.batch);
  const bool per_id = push.batch.pooling == Pooling::kNone;
  const size_t elements = (per_id ? kjt.values.size() : kjt.lengths.size()) * static_cast<size_t>(table.spec.dim);
  std::vector<float> gradients = push.gradients;
  if (gradients.empty()) gradients.assign(elements, push.gradient_value.value_or(0.0f));
  if (gradients.size() != elements) {
    return absl::InvalidArgumentError(absl::StrCat("--grad has ", gradients.size(), " values, ", elements,
                                                   " needed: ", per_id ? "one row per id" : "one row per bag", " of ",
                                                   table.spec.dim, " columns"));
  }
  PushOptions options;
  options.out_of_range_policy = PolicyOf(push.batch);
  options.grad_scale = push.grad_scale;
  if (push.learning_rate.has_value()) options.learning_rates = {{push.batch.table, *push.learning_rate}};
  const absl::Span<const float> all(gradients);
  const PushOutcome outcome =
      client->PushGrad(kjt, per_id ? Gradients::Of({}, {all}) : Gradients::Pooled(all), options);
  if (outcome.nodes.empty() && !outcome.ok()) return outcome.status;
  return ReportPush(outcome);
}

}  // namespace embps::tools
