#include "client/cpp/tools/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

namespace embps::tools {
namespace {

constexpr char kAbout[] =
    "Asks and changes running embps servers.\n\n"
    "Examples:\n"
    "  embpsctl health\n"
    "  embpsctl --nodes ps0:7737,ps1:7737 table create clicks --rows 1000000 --dim 64 --optimizer ADAGRAD\n"
    "  embpsctl lookup clicks --ids 7,9,42\n"
    "  embpsctl -o json stats";

constexpr char kFooter[] =
    "Exit codes: 0 ok, 1 usage (also: what was asked for is wrong), 2 unreachable, 3 denied, 4 not found,\n"
    "5 unhealthy or partial, 6 deadline, 7 server error.\n"
    "EMBPS_NODES stands in for --nodes. Every command has its own --help.";

// An option whose value is spelled as by embps::Name.
template <typename Enum>
void AddNamed(CLI::App& app, const std::string& flag, Enum& value, const std::string& meaning) {
  app.add_option_function<std::string>(
         flag,
         [&value, flag](const std::string& name) {
           if (!ParseName(name, &value)) throw CLI::ValidationError(flag, "unknown name '" + name + "'");
         },
         meaning)
      ->default_str(std::string(Name(value)));
}

template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;  // the first is the default

template <typename Value>
void AddChoice(CLI::App& app, const std::string& flag, Value& value, const Choices<Value>& choices,
               const std::string& meaning) {
  app.add_option_function<std::string>(
         flag,
         [&value, flag, choices](const std::string& name) {
           const auto found = std::ranges::find(choices, name, &std::pair<std::string, Value>::first);
           if (found == choices.end()) throw CLI::ValidationError(flag, "unknown name '" + name + "'");
           value = found->second;
         },
         meaning)
      ->default_str(choices.front().first);
}

class Parser {
 public:
  Parser() : app_(kAbout, "embpsctl") {
    app_.footer(kFooter);
    app_.fallthrough();
    AddGlobals();
    AddCluster();
    AddTables();
    AddPlan();
    AddLookup();
    AddPush();
    AddBench();
  }

  ParseOutcome Parse(std::vector<std::string> words) {
    std::ranges::reverse(words);  // CLI11 takes them from the back
    try {
      app_.parse(words);
      CheckTogether();
    } catch (const CLI::ParseError& error) {
      std::ostringstream out, fault;
      const int code = app_.exit(error, out, fault);
      return {std::nullopt, code == 0 ? ExitCode::kOk : ExitCode::kUsage, out.str() + fault.str()};
    }
    return {std::move(arguments_), ExitCode::kOk, ""};
  }

 private:
  CLI::App& AddCommand(CLI::App& parent, const std::string& name, Command command, const std::string& meaning,
                       const std::string& example) {
    CLI::App& app = *parent.add_subcommand(name, meaning);
    app.footer("Example:\n  embpsctl " + example);
    app.fallthrough();
    app.final_callback([this, command] { arguments_.command = command; });
    return app;
  }

  void AddGlobals() {
    GlobalArguments& globals = arguments_.globals;
    app_.add_option("-n,--nodes", globals.nodes, "host:port or unix:PATH of every node of the cluster, in any order")
        ->delimiter(',')
        ->envname("EMBPS_NODES")
        ->capture_default_str();
    app_.add_option("--cluster_id", globals.cluster_id, "checked against the servers; empty = any");
    app_.add_option("--namespace", globals.table_namespace, "of the tables")->capture_default_str();
    app_.add_option("--timeout_ms", globals.timeout_ms, "of each call, connecting included")
        ->check(CLI::Range(1, 86'400'000))
        ->capture_default_str();
    AddChoice<Format>(app_, "-o,--output", globals.format, {{"table", Format::kTable}, {"json", Format::kJson}},
                      "table or json");
  }

  void AddCluster() {
    CLI::App& health = AddCommand(app_, "health", Command::kHealth, "is every node ready?", "--nodes ps0:7737 health");
    health.add_option("--service", arguments_.health.service,
                      "of grpc.health.v1: empty = ready for data, embps.liveness = makes progress");
    AddCommand(app_, "info", Command::kInfo, "version, incarnation, ranks and limits of every node", "-o json info");
    AddCommand(app_, "stats", Command::kStats, "what tables and calls have done, node by node", "stats");
    CLI::App& top = AddCommand(app_, "top", Command::kTop, "live rates of every node", "top --interval_ms 500");
    top.add_option("--interval_ms", arguments_.top.interval_ms, "between two screens")
        ->check(CLI::Range(10, 3'600'000))
        ->capture_default_str();
    top.add_option("--count", arguments_.top.count, "screens; 0 = until interrupted")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  }

  void AddTables() {
    CLI::App& table = *app_.add_subcommand("table", "list, get, create and drop tables");
    table.fallthrough();
    AddCommand(table, "list", Command::kTableList, "tables of the namespace", "table list");
    CLI::App& get = AddCommand(table, "get", Command::kTableGet, "one table with its shards", "table get clicks");
    get.add_option("name", arguments_.table.name, "of the table")->required();
    CLI::App& drop = AddCommand(table, "drop", Command::kTableDrop, "deletes a table on every node",
                                "table drop clicks --if_exists");
    drop.add_option("name", arguments_.table.name, "of the table")->required();
    drop.add_flag("--if_exists", arguments_.table.if_exists, "no such table is no error");
    CLI::App& create = AddCommand(table, "create", Command::kTableCreate, "creates a table, or those of a file",
                                  "table create clicks --rows 1000000 --dim 64 --optimizer ROWWISE_ADAGRAD");
    AddTableSpec(create);
    AddOptimizer(create);
  }

  void AddTableSpec(CLI::App& create) {
    TableConfig& table = arguments_.create.table;
    auto* file = create.add_option("--file", arguments_.create.file, "JSON file of tables, see table_file.h");
    create.add_option("name", table.spec.name, "of the table")->excludes(file);
    create.add_option("--rows", table.spec.row_count, "R, 1 to 2^47")->excludes(file);
    create.add_option("--dim", table.spec.dim, "D, 1 to 4096")->excludes(file);
    AddNamed(create, "--row_type", table.spec.row_type, "FP32, FP16 or BF16");
    AddNamed(create, "--id_type", table.spec.id_type, "width of ids on the wire: INT64 or INT32");
    AddNamed(create, "--sharding", table.sharding.type,
             "AUTO, TABLE_WISE, ROW_WISE, COLUMN_WISE, TABLE_ROW_WISE or DATA_PARALLEL");
    create.add_option("--node", table.sharding.node, "node index, for explicit sharding; -1 = by load");
    create.add_option("--rank", table.sharding.rank, "rank of the node, TABLE_WISE; -1 = by load");
    create.add_option("--column_slices", table.sharding.column_slices, "COLUMN_WISE; 0 = one per rank");
    create.add_option("--expected_ids", table.expected_ids_per_batch, "ids per batch, for the planner");
    AddNamed(create, "--initializer", table.spec.initializer.kind, "DEFAULT, UNIFORM, NORMAL or CONSTANT");
    create.add_option("--init_a", table.spec.initializer.a, "lower bound, standard deviation, or the constant");
    create.add_option("--init_b", table.spec.initializer.b, "upper bound of UNIFORM");
    create.add_option("--seed", table.spec.initializer.seed, "of initial rows and stochastic rounding");
    create.add_flag("--nearest_rounding", table.spec.nearest_rounding, "round 16-bit rows to nearest");
  }

  void AddOptimizer(CLI::App& create) {
    OptimizerSpec& optimizer = arguments_.create.table.spec.optimizer;
    AddNamed(create, "--optimizer", optimizer.type,
             "SGD, ADAGRAD, ROWWISE_ADAGRAD, ADAM, PARTIAL_ROWWISE_ADAM, LAMB, PARTIAL_ROWWISE_LAMB or LARS_SGD");
    AddNamed(create, "--weight_decay_mode", optimizer.weight_decay_mode, "ROWWISE_ADAGRAD: NONE, L2 or DECOUPLED");
    const std::pair<const char*, float*> numbers[] = {{"--learning_rate", &optimizer.learning_rate},
                                                      {"--eps", &optimizer.eps},
                                                      {"--beta1", &optimizer.beta1},
                                                      {"--beta2", &optimizer.beta2},
                                                      {"--eta", &optimizer.eta},
                                                      {"--momentum", &optimizer.momentum},
                                                      {"--weight_decay", &optimizer.weight_decay},
                                                      {"--max_gradient", &optimizer.max_gradient},
                                                      {"--max_norm", &optimizer.max_norm}};
    for (const auto& [flag, value] : numbers)
      create.add_option(flag, *value, "of the optimizer")->capture_default_str();
  }

  void AddPlan() {
    CLI::App& plan = AddCommand(app_, "plan", Command::kPlan, "where tables lie, or where those of a file would go",
                                "plan --file tables.json --explain");
    plan.add_option("--file", arguments_.plan.file, "JSON file of tables; default: the stored plan");
    plan.add_flag("--explain", arguments_.plan.explain, "why each table goes where, and every shard");
  }

  void AddBatch(CLI::App& app, BatchArguments& batch) {
    app.add_option("table", batch.table, "name of the table")->required();
    app.add_option("--ids", batch.ids, "comma-separated")->delimiter(',');
    app.add_option("--lengths", batch.lengths, "ids of each bag; default: one bag")->delimiter(',');
    app.add_option("--weights", batch.weights, "one per id, SUM only")->delimiter(',');
    AddNamed(app, "--pooling", batch.pooling, "NONE = a row per id, SUM or MEAN = a row per bag");
    app.add_flag("--drop", batch.drop_out_of_range, "leave ids outside the table out instead of refusing them");
  }

  void AddLookup() {
    CLI::App& lookup = AddCommand(app_, "lookup", Command::kLookup, "rows, or pooled bags of rows, of a table",
                                  "lookup clicks --ids 7,9,42 --lengths 2,1 --pooling SUM");
    AddBatch(lookup, arguments_.lookup.batch);
    AddNamed(lookup, "--output_dtype", arguments_.lookup.output_dtype, "FP32, FP16 or BF16");
  }

  void AddPush() {
    PushArguments& push = arguments_.push;
    CLI::App& app = AddCommand(app_, "push", Command::kPush, "one optimizer step with the given gradients",
                               "push clicks --ids 7,9 --grad_value 0.1");
    AddBatch(app, push.batch);
    auto* grads =
        app.add_option("--grad", push.gradients, "every element, row by row, comma-separated")->delimiter(',');
    app.add_option("--grad_value", push.gradient_value, "one value for all elements")->excludes(grads);
    app.add_option("--learning_rate", push.learning_rate, "for this push alone");
    app.add_option("--grad_scale", push.grad_scale, "multiplies every gradient")->capture_default_str();
  }

  void AddBench() {
    BenchArguments& bench = arguments_.bench;
    CLI::App& app = AddCommand(app_, "bench", Command::kBench,
                               "load of random ids on tables of its own, which are dropped at the end",
                               "bench --mode both --tables 8 --dim 128 --seconds 10");
    AddChoice<BenchMode>(app, "--mode", bench.mode,
                         {{"lookup", BenchMode::kLookup}, {"push", BenchMode::kPush}, {"both", BenchMode::kBoth}},
                         "lookup, push or both in turn");
    app.add_option("--tables", bench.tables, "one feature each")->check(CLI::Range(1, 1024))->capture_default_str();
    app.add_option("--rows", bench.rows, "of each table")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--dim", bench.dim, "of each table")->check(CLI::Range(1, 4096))->capture_default_str();
    app.add_option("--batch_size", bench.batch_size, "samples of a call")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--bag_size", bench.bag_size, "ids of a bag")->check(CLI::NonNegativeNumber)->capture_default_str();
    app.add_option("--skew", bench.skew, "id = rows * u^skew: 1 = uniform")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--threads", bench.threads, "callers at a time")->check(CLI::Range(1, 256))->capture_default_str();
    app.add_option("--seconds", bench.seconds, "of load")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--seed", bench.seed, "of the ids")->capture_default_str();
    AddNamed(app, "--optimizer", bench.optimizer, "of each table");
    AddNamed(app, "--sharding", bench.sharding, "of each table");
  }

  // What no single option can know.
  void CheckTogether() const {
    // Not require_subcommand: it would hide the name of a command that does not exist.
    const CLI::App* table = app_.get_subcommand("table");
    if (app_.get_subcommands().empty() || (table->parsed() && table->get_subcommands().empty())) {
      throw CLI::RequiredError("a command");
    }
    if (arguments_.command == Command::kTableCreate && arguments_.create.file.empty()) {
      const TableSpec& spec = arguments_.create.table.spec;
      if (spec.name.empty() || spec.row_count == 0 || spec.dim == 0) {
        throw CLI::ValidationError("table create", "give a name with --rows and --dim, or --file");
      }
    }
    if (arguments_.command == Command::kPush && arguments_.push.gradients.empty() &&
        !arguments_.push.gradient_value.has_value() && !arguments_.push.batch.ids.empty()) {
      throw CLI::ValidationError("push", "give --grad or --grad_value");
    }
  }

  Arguments arguments_;
  CLI::App app_;
};

}  // namespace

ParseOutcome ParseArguments(std::vector<std::string> words) { return Parser().Parse(std::move(words)); }

}  // namespace embps::tools
