#include "tests/unit/client/fake_server.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/methods.h"
#include "proto/base/error.h"
#include "proto/base/float16.h"
#include "proto/base/status_macros.h"
#include "proto/plan/table_spec.h"

namespace embps::client {
namespace {

template <typename T>
std::vector<T> Read(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

void WriteElement(v1::DataType type, float value, std::string* out) {
  if (type == v1::DATA_TYPE_FP16 || type == v1::DATA_TYPE_BF16) {
    const uint16_t bits = type == v1::DATA_TYPE_FP16 ? FloatToHalf(value) : FloatToBfloat(value);
    out->append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  } else {
    out->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
}

std::vector<float> ReadElements(v1::DataType type, const std::string& bytes) {
  if (type != v1::DATA_TYPE_FP16 && type != v1::DATA_TYPE_BF16) return Read<float>(bytes);
  std::vector<float> values;
  for (uint16_t bits : Read<uint16_t>(bytes)) {
    values.push_back(type == v1::DATA_TYPE_FP16 ? HalfToFloat(bits) : BfloatToFloat(bits));
  }
  return values;
}

template <class Message>
std::vector<std::string> One(const Message& message) {
  return {message.SerializeAsString()};
}

template <class Request>
absl::StatusOr<Request> Parse(const std::string& bytes) {
  Request request;
  if (!request.ParseFromString(bytes)) return MakeError(Reason::kMalformed, "cannot be parsed");
  return request;
}

}  // namespace

FakeServer::FakeServer(int node, plan::Cluster cluster, std::string cluster_id, uint64_t incarnation)
    : node_(node), cluster_(std::move(cluster)), cluster_id_(std::move(cluster_id)), incarnation_(incarnation) {
  limits.set_max_unary_bytes(2 << 20);
  limits.set_max_frame_bytes(1 << 20);
  limits.set_max_message_bytes(4 << 20);
}

void FakeServer::Restart() {
  incarnation_ += 1000;
  version_ = 0;
  tables_.clear();
  sessions_.clear();
  tokens_.clear();
}

void FakeServer::BumpPlacementVersion(const std::string& name) {
  Table* table = Find(name);
  table->stored.set_placement_version(table->stored.placement_version() + 1);
}

FakeServer::Table* FakeServer::Find(const std::string& name) {
  const auto found = tables_.find(name);
  return found == tables_.end() ? nullptr : &found->second;
}

std::vector<int32_t> FakeServer::ColumnsOf(const Table& table) const {
  std::vector<int32_t> columns;
  if (table.layout.type() == v1::SHARDING_TYPE_COLUMN_WISE) {
    for (const plan::ShardRange& slice : table.layout.ColumnSlicesOf(node_)) {
      for (int32_t c = slice.column_begin; c < slice.column_end; ++c) columns.push_back(c);
    }
    return columns;
  }
  for (int32_t c = 0; c < table.layout.dim(); ++c) columns.push_back(c);
  return columns;
}

absl::Status FakeServer::CheckIncarnation(uint64_t incarnation) const {
  if (incarnation == incarnation_) return absl::OkStatus();
  return MakeError(Reason::kStateRolledBack, "another incarnation", {{"incarnation", absl::StrCat(incarnation_)}});
}

absl::StatusOr<FakeServer::Table*> FakeServer::CheckFeature(const v1::Feature& feature) {
  for (auto& [name, table] : tables_) {
    if (table.stored.table_uid() != feature.table_uid()) continue;
    if (table.stored.placement_version() != feature.placement_version()) {
      return MakeError(Reason::kPlanStale, "another placement version");
    }
    if (feature.dim() != table.layout.dim()) return MakeError(Reason::kDimMismatch, "dim is not the table's");
    if (table.layout.rows_split_over_nodes() && feature.pooling() == v1::POOLING_MEAN && !feature.split_bags()) {
      return MakeError(Reason::kBadJaggedLayout, "MEAN over nodes needs split_bags");
    }
    if (feature.id_type() != table.stored.spec().id_type()) return MakeError(Reason::kDtypeUnsupported, "id_type");
    if (!table.layout.OwnsShard(node_)) return MakeError(Reason::kBadJaggedLayout, "this node owns no shard");
    return &table;
  }
  return MakeError(Reason::kTableNotFound, "no such table");
}

absl::StatusOr<FakeServer::Bags> FakeServer::Decode(const google::protobuf::RepeatedPtrField<v1::Feature>& features,
                                                    bool weighted, const Arrays& arrays, v1::OutOfRangePolicy policy,
                                                    uint64_t* dropped, uint64_t* pruned) {
  const std::vector<int64_t> lengths = Read<int64_t>(arrays.lengths);
  const std::vector<int64_t> bag_sizes = Read<int64_t>(arrays.bag_sizes);
  const std::vector<float> weights = Read<float>(arrays.weights);
  size_t bag = 0, sized = 0, weight = 0, byte = 0;
  Bags bags;
  for (const v1::Feature& feature : features) {
    EMBPS_ASSIGN_OR_RETURN(Table * table, CheckFeature(feature));
    const size_t id_bytes = feature.id_type() == v1::ID_TYPE_INT32 ? 4 : 8;
    bags.emplace_back();
    for (uint32_t b = 0; b < feature.batch_size(); ++b, ++bag) {
      if (bag >= lengths.size()) return MakeError(Reason::kBadJaggedLayout, "lengths are too short");
      Bag& out = bags.back().emplace_back();
      for (int64_t i = 0; i < lengths[bag]; ++i, byte += id_bytes) {
        if (byte + id_bytes > arrays.ids.size()) return MakeError(Reason::kBadJaggedLayout, "ids are too short");
        int64_t id = 0;
        int32_t narrow = 0;
        if (id_bytes == 8)
          std::memcpy(&id, arrays.ids.data() + byte, 8);
        else
          std::memcpy(&narrow, arrays.ids.data() + byte, 4), id = narrow;
        const float value = weighted ? weights.at(weight++) : 1.0f;
        if (id < 0 || id >= table->layout.row_count()) {
          if (policy != v1::OUT_OF_RANGE_POLICY_DROP) return MakeError(Reason::kIdOutOfRange, "id");
          ++*(id == -1 ? pruned : dropped);
          if (feature.pooling() != v1::POOLING_NONE) continue;
        } else if (!table->layout.RowsOf(node_).Contains(id)) {
          return MakeError(Reason::kBadJaggedLayout, absl::StrCat("id ", id, " is not of node ", node_));
        }
        out.ids.push_back(id);
        out.weights.push_back(value);
      }
      out.divisor = static_cast<int64_t>(out.ids.size());
      if (feature.split_bags()) out.divisor = bag_sizes.at(sized++);
    }
  }
  if (bag != lengths.size() || byte != arrays.ids.size() || sized != bag_sizes.size() || weight != weights.size()) {
    return MakeError(Reason::kBadJaggedLayout, "arrays are too long");
  }
  return bags;
}

template <class Request, class Response>
absl::StatusOr<std::vector<std::string>> FakeServer::Lookup(const std::vector<std::string>& requests) {
  v1::LookupHeader header;
  Arrays arrays;
  for (const std::string& bytes : requests) {
    EMBPS_ASSIGN_OR_RETURN(const Request frame, Parse<Request>(bytes));
    if (frame.has_header()) header = frame.header();
    arrays.lengths += frame.lengths();
    arrays.ids += frame.ids();
    arrays.weights += frame.weights();
    arrays.bag_sizes += frame.bag_sizes();
  }
  lookup_headers.push_back(header);
  EMBPS_RETURN_IF_ERROR(CheckIncarnation(header.server_incarnation()));
  uint64_t dropped = 0, pruned = 0;
  EMBPS_ASSIGN_OR_RETURN(const Bags bags, Decode(header.features(), header.weighted(), arrays,
                                                 header.out_of_range_policy(), &dropped, &pruned));
  // Rows one by one, each a run of its own, in any order.
  std::vector<std::pair<v1::Run, std::string>> rows;
  for (int f = 0; f < header.features_size(); ++f) {
    EMBPS_ASSIGN_OR_RETURN(const Table* table, CheckFeature(header.features(f)));
    const std::vector<int32_t> columns = ColumnsOf(*table);
    uint64_t row = 0;
    const auto emit = [&](const std::vector<double>& values) {
      v1::Run run;
      run.set_first_feature(static_cast<uint32_t>(f));
      run.set_feature_count(1);
      run.set_row_begin(row++);
      run.set_row_count(1);
      run.set_dim(static_cast<uint32_t>(columns.size()));
      std::string bytes;
      for (double value : values) WriteElement(header.output_dtype(), static_cast<float>(value), &bytes);
      rows.emplace_back(run, bytes);
    };
    for (const Bag& bag : bags[static_cast<size_t>(f)]) {
      std::vector<double> sums(columns.size(), 0.0);
      for (size_t i = 0; i < bag.ids.size(); ++i) {
        const bool sequence = header.features(f).pooling() == v1::POOLING_NONE;
        std::vector<double> values;
        for (size_t c = 0; c < columns.size(); ++c) {
          const double x =
              bag.ids[i] < 0 ? 0.0 : table->rows[static_cast<size_t>(bag.ids[i] * table->layout.dim() + columns[c])];
          values.push_back(x);
          sums[c] += x * bag.weights[i] /
                     (header.features(f).pooling() == v1::POOLING_MEAN ? static_cast<double>(bag.divisor) : 1.0);
        }
        if (sequence) emit(values);
      }
      if (header.features(f).pooling() != v1::POOLING_NONE) emit(sums);
    }
  }
  std::shuffle(rows.begin(), rows.end(), random_);
  const size_t frame_bytes = requests.empty() || sizeof(Response) == 0 ? 0 : limits.max_frame_bytes();
  std::vector<std::string> replies;
  for (size_t next = 0; next < rows.size() || replies.empty();) {
    Response response;
    response.set_server_incarnation(incarnation_);
    response.set_version(version_);
    response.set_dropped_ids(dropped);
    response.set_pruned_ids(pruned);
    if (header.want_lookup_token() && replies.empty()) {
      std::string token = absl::StrCat("token", tokens_.size());
      token.resize(16, '.');
      tokens_[token] = {bags, header};
      response.set_lookup_token(token);
    }
    std::string blocks;
    const bool unary = std::is_same_v<Response, v1::LookupResponse>;
    while (next < rows.size() && (unary || blocks.size() + rows[next].second.size() <= frame_bytes)) {
      *response.add_runs() = rows[next].first;
      blocks += rows[next++].second;
    }
    response.set_blocks(blocks);
    replies.push_back(response.SerializeAsString());
  }
  return replies;
}

template <class Request, class Response>
absl::StatusOr<std::vector<std::string>> FakeServer::PushGrad(const std::vector<std::string>& requests) {
  v1::PushGradHeader header;
  Arrays arrays;
  for (const std::string& bytes : requests) {
    EMBPS_ASSIGN_OR_RETURN(const Request frame, Parse<Request>(bytes));
    if (frame.has_header()) header = frame.header();
    arrays.lengths += frame.lengths();
    arrays.ids += frame.ids();
    arrays.weights += frame.weights();
    arrays.bag_sizes += frame.bag_sizes();
    arrays.grads += frame.grads();
  }
  mutations.push_back(header.mutation());
  push_headers.push_back(header);
  EMBPS_RETURN_IF_ERROR(CheckIncarnation(header.server_incarnation()));
  const auto session = sessions_.find(header.mutation().session_id());
  if (session == sessions_.end()) return MakeError(Reason::kSessionEnded, "no such session");
  session->second.erase(session->second.begin(), session->second.lower_bound(header.mutation().first_incomplete()));
  const auto earlier = session->second.find(header.mutation().sequence());
  Response response;
  if (earlier != session->second.end()) {
    if (earlier->second.digest != header.mutation().push_digest()) return MakeError(Reason::kSeqReused, "digest");
    ++duplicates;
    v1::PushGradResponse kept = earlier->second.response;
    kept.set_duplicate(true);
    response.ParseFromString(kept.SerializeAsString());
    return One(response);
  }
  v1::PushGradResponse applied;
  EMBPS_RETURN_IF_ERROR(Apply(header, arrays, &applied));
  session->second[header.mutation().sequence()] = {header.mutation().push_digest(), applied};
  response.ParseFromString(applied.SerializeAsString());
  return One(response);
}

absl::Status FakeServer::Apply(const v1::PushGradHeader& header, const Arrays& arrays, v1::PushGradResponse* response) {
  uint64_t dropped = 0, pruned = 0;
  Bags bags;
  if (header.lookup_token().empty()) {
    EMBPS_ASSIGN_OR_RETURN(
        bags, Decode(header.features(), header.weighted(), arrays, header.out_of_range_policy(), &dropped, &pruned));
  } else {
    const auto kept = tokens_.find(header.lookup_token());
    if (kept == tokens_.end()) return MakeError(Reason::kLookupTokenExpired, "no such token");
    if (kept->second.second.features_size() != header.features_size() || !arrays.ids.empty()) {
      return MakeError(Reason::kBadJaggedLayout, "not the lookup's batch");
    }
    bags = kept->second.first;
  }
  const std::vector<float> grads = ReadElements(header.grad_dtype(), arrays.grads);
  size_t at = 0;
  uint64_t touched = 0;
  std::map<std::string, std::vector<double>> updates;
  std::map<std::string, bool> named;
  for (int f = 0; f < header.features_size(); ++f) {
    const v1::Feature& feature = header.features(f);
    EMBPS_ASSIGN_OR_RETURN(Table * table, CheckFeature(feature));
    named[table->stored.spec().name()] = true;
    std::vector<double>& update = updates[table->stored.spec().name()];
    update.resize(table->rows.size(), 0.0);
    const std::vector<int32_t> columns = ColumnsOf(*table);
    for (const Bag& bag : bags[static_cast<size_t>(f)]) {
      const bool sequence = feature.pooling() == v1::POOLING_NONE;
      const size_t slots = sequence ? bag.ids.size() : 1;
      if (at + slots * columns.size() > grads.size()) return MakeError(Reason::kBadJaggedLayout, "grads are too short");
      for (size_t i = 0; i < bag.ids.size(); ++i) {
        if (bag.ids[i] < 0) continue;
        ++touched;
        const size_t slot = at + (sequence ? i * columns.size() : 0);
        const double divisor = feature.pooling() == v1::POOLING_MEAN ? static_cast<double>(bag.divisor) : 1.0;
        for (size_t c = 0; c < columns.size(); ++c) {
          update[static_cast<size_t>(bag.ids[i] * table->layout.dim() + columns[c])] +=
              double{grads[slot + c]} * header.grad_scale() * bag.weights[i] / divisor;
        }
      }
      at += slots * columns.size();
    }
  }
  if (at != grads.size()) return MakeError(Reason::kBadJaggedLayout, "grads are too long");
  for (auto& [name, update] : updates) {
    Table& table = *Find(name);
    double rate = 1.0;
    for (const v1::PushLearningRate& entry : header.learning_rates()) {
      if (entry.table_uid() == table.stored.table_uid()) rate = entry.learning_rate();
    }
    for (size_t i = 0; i < update.size(); ++i) table.rows[i] -= static_cast<float>(rate * update[i]);
    table.stored.set_step(table.stored.step() + 1);
  }
  ++pushes_applied;
  response->set_server_incarnation(incarnation_);
  response->set_version(++version_);
  response->set_rows_updated(touched);
  response->set_dropped_ids(dropped);
  response->set_pruned_ids(pruned);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FakeServer::CreateTables(const std::string& bytes) {
  EMBPS_ASSIGN_OR_RETURN(const v1::CreateTablesRequest request, Parse<v1::CreateTablesRequest>(bytes));
  v1::CreateTablesResponse response;
  for (const v1::NewTable& wanted : request.tables()) {
    v1::CreatedTable* created = response.add_tables();
    Table* there = Find(wanted.spec().name());
    if (there != nullptr) {
      const bool same = plan::SpecsEqual(there->stored.spec(), wanted.spec()) &&
                        (wanted.table_uid() == 0 || wanted.table_uid() == there->stored.table_uid());
      if (!same) return MakeError(Reason::kTableSpecMismatch, "another spec");
      *created->mutable_table() = there->stored;
      continue;
    }
    if (node_ != 0 && wanted.table_uid() == 0) return MakeError(Reason::kMalformed, "node 0 gives the uid");
    v1::Table stored;
    stored.set_table_uid(wanted.table_uid() != 0 ? wanted.table_uid() : next_uid_++);
    stored.set_placement_version(1);
    *stored.mutable_spec() = plan::NormalizeTableSpec(wanted.spec());
    *stored.mutable_placement() = wanted.placement();
    stored.set_learning_rate(1.0f);
    EMBPS_ASSIGN_OR_RETURN(plan::TableLayout layout,
                           plan::TableLayout::Create(stored.spec(), stored.placement(), cluster_));
    std::vector<float> rows;
    for (int64_t r = 0; r < layout.row_count(); ++r) {
      for (int64_t c = 0; c < layout.dim(); ++c) rows.push_back(InitialValue(r, c));
    }
    *created->mutable_table() = stored;
    created->set_created(true);
    tables_.emplace(stored.spec().name(), Table{stored, std::move(layout), std::move(rows)});
  }
  return One(response);
}

absl::StatusOr<std::vector<std::string>> FakeServer::ReadRows(const std::string& bytes) {
  EMBPS_ASSIGN_OR_RETURN(const v1::ReadRowsRequest request, Parse<v1::ReadRowsRequest>(bytes));
  v1::ReadRowsResponse response;
  for (auto& [name, table] : tables_) {
    if (table.stored.table_uid() != request.table_uid()) continue;
    response.set_step(table.stored.step());
    std::vector<std::pair<int32_t, int32_t>> slices = {{0, table.layout.dim()}};
    if (table.layout.type() == v1::SHARDING_TYPE_COLUMN_WISE) {
      slices.clear();
      for (const auto& s : table.layout.ColumnSlicesOf(node_)) slices.emplace_back(s.column_begin, s.column_end);
    }
    for (const auto& [begin, end] : slices) {
      v1::RowSlice* out = response.add_slices();
      out->set_column_begin(begin);
      out->set_column_end(end);
      for (int64_t id : Read<int64_t>(request.ids())) {
        if (!table.layout.RowsOf(node_).Contains(id)) return MakeError(Reason::kBadJaggedLayout, "not of this node");
        const float* row = &table.rows[static_cast<size_t>(id * table.layout.dim())];
        response.mutable_rows()->append(reinterpret_cast<const char*>(row + begin),
                                        static_cast<size_t>(end - begin) * sizeof(float));
      }
    }
    return One(response);
  }
  return MakeError(Reason::kTableNotFound, "no such table");
}

absl::StatusOr<std::vector<std::string>> FakeServer::WriteRows(const std::string& bytes) {
  EMBPS_ASSIGN_OR_RETURN(const v1::WriteRowsRequest request, Parse<v1::WriteRowsRequest>(bytes));
  if (sessions_.count(request.mutation().session_id()) == 0) return MakeError(Reason::kSessionEnded, "no such session");
  for (auto& [name, table] : tables_) {
    if (table.stored.table_uid() != request.table_uid()) continue;
    const std::vector<int64_t> ids = Read<int64_t>(request.ids());
    const std::vector<float> rows = Read<float>(request.rows());
    const auto dim = static_cast<size_t>(table.layout.dim());
    for (size_t i = 0; i < ids.size(); ++i) {
      std::copy_n(rows.begin() + static_cast<ptrdiff_t>(i * dim), dim,
                  table.rows.begin() + ids[i] * table.layout.dim());
    }
    v1::WriteRowsResponse response;
    response.set_rows_written(ids.size());
    return One(response);
  }
  return MakeError(Reason::kTableNotFound, "no such table");
}

absl::StatusOr<std::vector<std::string>> FakeServer::Handle(const std::string& method,
                                                            const std::vector<std::string>& requests) {
  ++calls[method];
  if (method == kLookup) return Lookup<v1::LookupRequest, v1::LookupResponse>(requests);
  if (method == kLookupStream) return Lookup<v1::LookupStreamRequest, v1::LookupStreamResponse>(requests);
  if (method == kPushGrad) return PushGrad<v1::PushGradRequest, v1::PushGradResponse>(requests);
  if (method == kPushGradStream) return PushGrad<v1::PushGradStreamRequest, v1::PushGradStreamResponse>(requests);
  const std::string& bytes = requests.at(0);
  if (method == kCreateTables) return CreateTables(bytes);
  if (method == kReadRows) return ReadRows(bytes);
  if (method == kWriteRows) return WriteRows(bytes);
  if (method == kGetServerInfo) {
    v1::GetServerInfoResponse response;
    response.set_server_incarnation(incarnation_);
    response.set_cluster_id(cluster_id_);
    response.set_node_index(node_);
    response.set_node_count(cluster_.node_count());
    response.set_rank_count(cluster_.ranks_per_node[static_cast<size_t>(node_)]);
    for (int ranks : cluster_.ranks_per_node) response.add_ranks_per_node(ranks);
    *response.mutable_limits() = limits;
    return One(response);
  }
  if (method == kOpenSession) {
    v1::OpenSessionResponse response;
    std::string id = absl::StrCat("s", node_, "-", incarnation_, "-", calls[method]);
    id.resize(16, '.');
    sessions_[id];
    response.set_session_id(id);
    response.set_server_incarnation(incarnation_);
    return One(response);
  }
  if (method == kCloseSession) return One(v1::CloseSessionResponse());
  if (method == kListTables) {
    v1::ListTablesResponse response;
    for (const auto& [name, table] : tables_) *response.add_tables() = table.stored;
    return One(response);
  }
  if (method == kGetTable) {
    EMBPS_ASSIGN_OR_RETURN(const v1::GetTableRequest request, Parse<v1::GetTableRequest>(bytes));
    v1::GetTableResponse response;
    if (Find(request.name()) == nullptr) return MakeError(Reason::kTableNotFound, "no such table");
    *response.mutable_table() = Find(request.name())->stored;
    return One(response);
  }
  if (method == kDeleteTable) {
    EMBPS_ASSIGN_OR_RETURN(const v1::DeleteTableRequest request, Parse<v1::DeleteTableRequest>(bytes));
    v1::DeleteTableResponse response;
    if (Find(request.name()) != nullptr) response.set_table_uid(Find(request.name())->stored.table_uid());
    tables_.erase(request.name());
    return One(response);
  }
  if (method == kUpdateTable) return One(v1::UpdateTableResponse());
  return absl::UnimplementedError(method);
}

}  // namespace embps::client
