// CreateTables: every field of a spec and of a placement; and the other small requests of all services.
#include <limits>
#include <utility>

#include "tests/e2e/malformed_cases.h"

namespace embps {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr char kTables[] = "/embps.v1.TableService/";
constexpr char kData[] = "/embps.v1.EmbeddingService/";

template <class Request>
void Add(MalformedCases& cases, const std::string& name, const std::string& method, Reason reason,
         const std::string& text, std::function<void(Request&, MalformedTarget&)> fill) {
  cases.push_back({name, method, reason, text, [fill](MalformedTarget& target) {
                     Request request;
                     fill(request, target);
                     return std::vector<std::string>{request.SerializeAsString()};
                   }});
}

v1::NewTable GoodTable() {
  v1::NewTable table;
  table.mutable_spec()->set_name("new");
  table.mutable_spec()->set_row_count(10);
  table.mutable_spec()->set_dim(2);
  table.mutable_placement()->set_sharding_type(v1::SHARDING_TYPE_TABLE_WISE);
  v1::Shard& shard = *table.mutable_placement()->add_shards();
  shard.set_row_end(10);
  shard.set_column_end(2);
  return table;
}

class CreateRows {
 public:
  explicit CreateRows(MalformedCases& cases) : cases_(cases) {}

  // A good table stands before the bad one: all or nothing.
  void Table(const std::string& name, const std::string& text, std::function<void(v1::NewTable&)> edit,
             Reason reason = Reason::kMalformed) {
    Add<v1::CreateTablesRequest>(cases_, "CreateTables: " + name, std::string(kTables) + "CreateTables", reason, text,
                                 [edit](v1::CreateTablesRequest& request, MalformedTarget&) {
                                   *request.add_tables() = GoodTable();
                                   request.mutable_tables(0)->mutable_spec()->set_name("good");
                                   v1::NewTable& table = *request.add_tables();
                                   table = GoodTable();
                                   edit(table);
                                 });
  }
  void Spec(const std::string& name, const std::string& text, std::function<void(v1::TableSpec&)> edit) {
    Table(name, text, [edit](v1::NewTable& t) { edit(*t.mutable_spec()); });
  }
  void Optimizer(const std::string& field, std::vector<float> values, void (v1::OptimizerSpec::*set)(float)) {
    for (const float value : values) {
      Spec("optimizer." + field + " " + std::to_string(value), "optimizer." + field,
           [set, value](v1::TableSpec& s) { (s.mutable_optimizer()->*set)(value); });
    }
  }
  void Initializer(const std::string& name, const std::string& text, int kind, float a, float b) {
    Spec("initializer " + name, text, [kind, a, b](v1::TableSpec& s) {
      s.mutable_initializer()->set_kind(static_cast<v1::InitializerKind>(kind));
      s.mutable_initializer()->set_a(a);
      s.mutable_initializer()->set_b(b);
    });
  }
  void Shard(const std::string& name, std::function<void(v1::Shard&)> edit) {
    Table("a shard with " + name, "shards[0]",
          [edit](v1::NewTable& t) { edit(*t.mutable_placement()->mutable_shards(0)); });
  }

  void AddNamesAndSizes();
  void AddOptimizers();
  void AddPlacements();
  void AddConflicts();

 private:
  MalformedCases& cases_;
};

void CreateRows::AddNamesAndSizes() {
  const std::string long_name(129, 'n');
  Spec("no name", "name: must not be empty", [](v1::TableSpec& s) { s.clear_name(); });
  Spec("a name of 129 bytes", "name: 129 bytes", [=](v1::TableSpec& s) { s.set_name(long_name); });
  Spec("a name of 1 MiB", "CreateTablesRequest: header fields over the limit",
       [](v1::TableSpec& s) { s.set_name(std::string(1 << 20, 'n')); });
  Spec("a name with a line feed", "name: control bytes", [](v1::TableSpec& s) { s.set_name("a\nb"); });
  Spec("a namespace of 129 bytes", "namespace: 129 bytes", [=](v1::TableSpec& s) { s.set_namespace_(long_name); });
  Spec("a namespace with a slash", "namespace: '/'", [](v1::TableSpec& s) { s.set_namespace_("a/b"); });
  for (const int64_t rows : {int64_t{0}, int64_t{-1}, (int64_t{1} << 47) + 1, std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max()}) {
    Spec("row_count " + std::to_string(rows), "row_count", [rows](v1::TableSpec& s) { s.set_row_count(rows); });
  }
  for (const int dim : {0, -1, 4097, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    Spec("dim " + std::to_string(dim), "dim", [dim](v1::TableSpec& s) { s.set_dim(dim); });
  }
  Spec("row_type 4", "row_type", [](v1::TableSpec& s) { s.set_row_type(static_cast<v1::DataType>(4)); });
  Spec("id_type 3", "id_type", [](v1::TableSpec& s) { s.set_id_type(static_cast<v1::IdType>(3)); });
  Spec("INT32 ids of too many rows", "id_type", [](v1::TableSpec& s) {
    s.set_id_type(v1::ID_TYPE_INT32);
    s.set_row_count((int64_t{1} << 31) + 1);
  });
  Spec("sharding_type 6", "sharding_type",
       [](v1::TableSpec& s) { s.set_sharding_type(static_cast<v1::ShardingType>(6)); });
}

void CreateRows::AddOptimizers() {
  using O = v1::OptimizerSpec;
  Optimizer("learning_rate", {kNan, kInf, -1}, &O::set_learning_rate);
  Optimizer("eps", {kNan, kInf, 0, -1}, &O::set_eps);
  Optimizer("beta1", {kNan, -0.1f, 1}, &O::set_beta1);
  Optimizer("beta2", {kNan, -0.1f, 1}, &O::set_beta2);
  Optimizer("eta", {kNan, 0, -1}, &O::set_eta);
  Optimizer("momentum", {kNan, -0.1f, 1}, &O::set_momentum);
  Optimizer("weight_decay", {kNan, kInf, -1}, &O::set_weight_decay);
  Optimizer("max_gradient", {kNan, kInf, -1}, &O::set_max_gradient);
  Optimizer("max_norm", {kNan, kInf, -1}, &O::set_max_norm);
  Spec("optimizer.type 9", "optimizer.type",
       [](v1::TableSpec& s) { s.mutable_optimizer()->set_type(static_cast<v1::OptimizerType>(9)); });
  Spec("optimizer.weight_decay_mode 4", "optimizer.weight_decay_mode",
       [](v1::TableSpec& s) { s.mutable_optimizer()->set_weight_decay_mode(static_cast<v1::WeightDecayMode>(4)); });
  Initializer("of an unknown kind", "initializer.kind", 4, 0, 0);
  Initializer("with NaN for a", "initializer.a", v1::INITIALIZER_KIND_CONSTANT, kNan, 0);
  Initializer("with infinite b", "initializer.b", v1::INITIALIZER_KIND_UNIFORM, 0, kInf);
  Initializer("with b below a", "initializer.b", v1::INITIALIZER_KIND_UNIFORM, 1, 0);
  Initializer("wider than fp32", "initializer.b", v1::INITIALIZER_KIND_UNIFORM, -3e38f, 3e38f);
  Initializer("with a negative deviation", "initializer.a", v1::INITIALIZER_KIND_NORMAL, -1, 0);
  Initializer("with a but no kind", "initializer.kind", v1::INITIALIZER_KIND_UNSPECIFIED, 1, 0);
}

void CreateRows::AddPlacements() {
  Table("no placement", "placement", [](v1::NewTable& t) { t.clear_placement(); });
  Table("no shards", "placement", [](v1::NewTable& t) { t.mutable_placement()->clear_shards(); });
  for (const int type : {0, 6, -1}) {
    Table("placement.sharding_type " + std::to_string(type), "sharding_type",
          [type](v1::NewTable& t) { t.mutable_placement()->set_sharding_type(static_cast<v1::ShardingType>(type)); });
  }
  Shard("node 1 of 1", [](v1::Shard& s) { s.set_node(1); });
  Shard("node -1", [](v1::Shard& s) { s.set_node(-1); });
  Shard("rank 1 of 1", [](v1::Shard& s) { s.set_rank(1); });
  Shard("rank -1", [](v1::Shard& s) { s.set_rank(-1); });
  Shard("row_begin 1", [](v1::Shard& s) { s.set_row_begin(1); });
  Shard("row_begin -1", [](v1::Shard& s) { s.set_row_begin(-1); });
  Shard("row_end 9", [](v1::Shard& s) { s.set_row_end(9); });
  Shard("row_end 2^62", [](v1::Shard& s) { s.set_row_end(int64_t{1} << 62); });
  Shard("column_begin 1", [](v1::Shard& s) { s.set_column_begin(1); });
  Shard("column_end 3", [](v1::Shard& s) { s.set_column_end(3); });
  Shard("no columns", [](v1::Shard& s) { s.set_column_end(0); });
  Table("two shards over the same rows", "2 shards",
        [](v1::NewTable& t) { *t.mutable_placement()->add_shards() = t.placement().shards(0); });
  Table("4097 shards", "4097 shards", [](v1::NewTable& t) {
    const v1::Shard shard = t.placement().shards(0);
    while (t.placement().shards_size() < 4097) *t.mutable_placement()->add_shards() = shard;
  });
  Table("column slices with a gap", "shards[1]", [](v1::NewTable& t) {
    t.mutable_placement()->set_sharding_type(v1::SHARDING_TYPE_COLUMN_WISE);
    t.mutable_spec()->set_dim(4);
    v1::Shard& second = *t.mutable_placement()->add_shards();
    second = t.placement().shards(0);
    second.set_column_begin(3);
    second.set_column_end(4);
  });
}

void CreateRows::AddConflicts() {
  Table("a name twice", "stands in the request twice", [](v1::NewTable& t) { t.mutable_spec()->set_name("good"); });
  Table(
      "a table that exists with another dim", "dim",
      [](v1::NewTable& t) {
        t.mutable_spec()->set_name("adam");
        t.mutable_spec()->set_dim(3);
      },
      Reason::kTableSpecMismatch);
  const std::string method = std::string(kTables) + "CreateTables";
  for (const int count : {0, 1025}) {
    Add<v1::CreateTablesRequest>(cases_, "CreateTables: " + std::to_string(count) + " tables", method,
                                 Reason::kMalformed, "tables: " + std::to_string(count),
                                 [count](v1::CreateTablesRequest& request, MalformedTarget&) {
                                   for (int i = 0; i < count; ++i) *request.add_tables() = GoodTable();
                                 });
  }
  Add<v1::CreateTablesRequest>(cases_, "CreateTables: a uid twice", method, Reason::kMalformed, "table_uid",
                               [](v1::CreateTablesRequest& request, MalformedTarget&) {
                                 for (const char* name : {"good", "new"}) {
                                   v1::NewTable& table = *request.add_tables();
                                   table = GoodTable();
                                   table.mutable_spec()->set_name(name);
                                   table.set_table_uid(5);
                                 }
                               });
  Add<v1::CreateTablesRequest>(cases_, "CreateTables: the uid of another table", method, Reason::kTableSpecMismatch,
                               "table_uid", [](v1::CreateTablesRequest& request, MalformedTarget& target) {
                                 v1::NewTable& table = *request.add_tables();
                                 table = GoodTable();
                                 table.set_table_uid(target.adam.table_uid());
                               });
}

// Requests that name a table or a namespace.
template <class Request>
void AddNamed(MalformedCases& cases, const std::string& method) {
  const auto add = [&](const std::string& name, const std::string& text, const std::string& name_space) {
    Add<Request>(cases, method + ": " + name, kTables + method, Reason::kMalformed, text,
                 [name_space](Request& request, MalformedTarget&) {
                   request.set_namespace_(name_space);
                   if constexpr (requires { request.set_name("t"); }) request.set_name("t");
                 });
  };
  add("a namespace of 129 bytes", "namespace: 129 bytes", std::string(129, 'n'));
  add("a namespace with a slash", "namespace: '/'", "a/b");
  add("a namespace with a control byte", "namespace: control bytes", "\x01");
  if constexpr (requires(Request r) { r.set_name("t"); }) {
    for (const auto& [name, text] : {std::pair<std::string, std::string>{"", "name: must not be empty"},
                                     {std::string(129, 'n'), "name: 129 bytes"},
                                     {"a\tb", "name: control bytes"}}) {
      Add<Request>(cases, method + ": " + text, kTables + method, Reason::kMalformed, text,
                   [name = name](Request& request, MalformedTarget&) { request.set_name(name); });
    }
  }
}

void AddSessions(MalformedCases& cases) {
  using Open = v1::OpenSessionRequest;
  const std::string open = std::string(kData) + "OpenSession", close = std::string(kData) + "CloseSession";
  Add<Open>(cases, "OpenSession: a namespace of 129 bytes", open, Reason::kMalformed, "namespace: 129 bytes",
            [](Open& r, MalformedTarget&) { r.set_namespace_(std::string(129, 'n')); });
  Add<Open>(cases, "OpenSession: a client_name of 129 bytes", open, Reason::kMalformed, "client_name: 129 bytes",
            [](Open& r, MalformedTarget&) { r.set_client_name(std::string(129, 'n')); });
  Add<Open>(cases, "OpenSession: a client_name with a control byte", open, Reason::kMalformed,
            "client_name: control bytes", [](Open& r, MalformedTarget&) { r.set_client_name("a\x7f"); });
  Add<Open>(cases, "OpenSession: another incarnation", open, Reason::kStateRolledBack, "server_incarnation",
            [](Open& r, MalformedTarget&) { r.set_server_incarnation(7); });
  for (const size_t bytes : {size_t{0}, size_t{15}, size_t{16}, size_t{17}}) {
    Add<v1::CloseSessionRequest>(
        cases, "CloseSession: " + std::to_string(bytes) + " bytes", close, Reason::kSessionEnded, "session_id",
        [bytes](v1::CloseSessionRequest& r, MalformedTarget&) { r.set_session_id(std::string(bytes, 's')); });
  }
}

}  // namespace

void AddTableCases(MalformedCases& cases) {
  CreateRows create(cases);
  create.AddNamesAndSizes();
  create.AddOptimizers();
  create.AddPlacements();
  create.AddConflicts();
  AddNamed<v1::GetTableRequest>(cases, "GetTable");
  AddNamed<v1::DeleteTableRequest>(cases, "DeleteTable");
  AddNamed<v1::ListTablesRequest>(cases, "ListTables");
  AddNamed<v1::GetPlanRequest>(cases, "GetPlan");
  Add<v1::GetTableRequest>(cases, "GetTable: a name that no table bears", std::string(kTables) + "GetTable",
                           Reason::kTableNotFound, "nobody",
                           [](v1::GetTableRequest& r, MalformedTarget&) { r.set_name("nobody"); });
  AddSessions(cases);
}

}  // namespace embps
