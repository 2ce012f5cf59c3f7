#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/tools/bench_load.h"
#include "client/cpp/tools/commands.h"
#include "proto/base/status_macros.h"

namespace embps::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Batches that a caller takes in turn: enough that the caches do not hold all their rows by chance.
constexpr int kBatchesPerCaller = 4;

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Tally {
  absl::Status status;
  Latencies lookups;
  Latencies pushes;

  void Add(const Tally& other) {
    if (status.ok()) status = other.status;
    lookups.Add(other.lookups);
    pushes.Add(other.pushes);
  }
};

// Tables of this run alone, dropped when it ends, however it ends.
class BenchTables {
 public:
  static absl::StatusOr<std::unique_ptr<BenchTables>> Create(Client& client, const BenchArguments& bench) {
    std::unique_ptr<BenchTables> tables(new BenchTables(client));
    const std::string run = absl::StrFormat("%08x", std::random_device{}());
    std::vector<TableConfig> configs;
    for (int i = 0; i < bench.tables; ++i) {
      TableConfig config;
      config.spec.name = absl::StrCat("embpsctl_bench_", run, "_", i);
      config.spec.row_count = bench.rows;
      config.spec.dim = bench.dim;
      config.spec.optimizer.type = bench.optimizer;
      config.sharding.type = bench.sharding;
      config.expected_ids_per_batch = static_cast<double>(bench.batch_size * bench.bag_size);
      tables->names_.push_back(config.spec.name);
      configs.push_back(std::move(config));
    }
    EMBPS_RETURN_IF_ERROR(client.CreateTables(configs).status());
    return tables;
  }

  ~BenchTables() {
    for (const std::string& name : names_) (void)client_.DropTable(name);
  }
  BenchTables(const BenchTables&) = delete;
  BenchTables& operator=(const BenchTables&) = delete;

  const std::vector<std::string>& names() const { return names_; }

 private:
  explicit BenchTables(Client& client) : client_(client) {}

  Client& client_;
  std::vector<std::string> names_;
};

// One caller until `end`, or until a call fails.
Tally RunCaller(Client& client, const BenchArguments& bench, const std::vector<std::string>& keys, int caller,
                Clock::time_point end) {
  std::vector<KeyedJaggedTensor> batches;
  for (int i = 0; i < kBatchesPerCaller; ++i) {
    batches.push_back(RandomBatch(bench, keys, static_cast<uint64_t>(caller * kBatchesPerCaller + i)));
  }
  const std::vector<float> gradients(keys.size() * static_cast<size_t>(bench.batch_size * bench.dim), 1e-3f);
  Tally tally;
  for (size_t round = 0; Clock::now() < end && tally.status.ok(); ++round) {
    const KeyedJaggedTensor& batch = batches[round % batches.size()];
    if (bench.mode != BenchMode::kPush) {
      const Clock::time_point start = Clock::now();
      tally.status = client.Lookup(batch).status();
      if (tally.status.ok()) tally.lookups.Add(MicrosSince(start));
    }
    if (bench.mode != BenchMode::kLookup && tally.status.ok()) {
      const Clock::time_point start = Clock::now();
      tally.status = client.PushGrad(batch, Gradients::Pooled(gradients)).status;
      if (tally.status.ok()) tally.pushes.Add(MicrosSince(start));
    }
  }
  return tally;
}

void AddCalls(const char* name, const Latencies& calls, double seconds, double ids_per_call, double bytes_per_call,
              Report& report, TextTable& table) {
  if (calls.count() == 0) return;
  const double per_second = static_cast<double>(calls.count()) / seconds;
  report.json[name] = {{"calls", calls.count()},
                       {"calls_per_s", per_second},
                       {"ids_per_s", per_second * ids_per_call},
                       {"payload_bytes_per_s", per_second * bytes_per_call},
                       {"p50_us", calls.Percentile(0.5)},
                       {"p99_us", calls.Percentile(0.99)}};
  table.Add({name, absl::StrCat(calls.count()), absl::StrFormat("%.1f", per_second),
             absl::StrFormat("%.3g", per_second * ids_per_call),
             absl::StrCat(BytesText(per_second * bytes_per_call), "/s"), absl::StrFormat("%.0f", calls.Percentile(0.5)),
             absl::StrFormat("%.0f", calls.Percentile(0.99))});
}

Report ReportBench(const BenchArguments& bench, const Tally& tally, double seconds) {
  const double bags = static_cast<double>(bench.tables) * static_cast<double>(bench.batch_size);
  const double ids = bags * static_cast<double>(bench.bag_size);
  // Ids and lengths of 8 bytes up, fp32 rows down or up.
  const double bytes = 8 * (ids + bags) + 4 * bags * bench.dim;
  Report report;
  report.json = {{"tables", bench.tables},         {"rows", bench.rows},         {"dim", bench.dim},
                 {"batch_size", bench.batch_size}, {"bag_size", bench.bag_size}, {"skew", bench.skew},
                 {"threads", bench.threads},       {"seconds", seconds},         {"seed", bench.seed}};
  TextTable table({"CALL", "CALLS", "CALLS/S", "IDS/S", "PAYLOAD", "P50 US", "P99 US"});
  AddCalls("lookup", tally.lookups, seconds, ids, bytes, report, table);
  AddCalls("push", tally.pushes, seconds, ids, bytes, report, table);
  report.text = table.ToString();
  return report;
}

}  // namespace

absl::StatusOr<Report> RunBench(const Arguments& arguments) {
  const BenchArguments& bench = arguments.bench;
  EMBPS_ASSIGN_OR_RETURN(const auto client, ConnectTo(arguments.globals));
  EMBPS_ASSIGN_OR_RETURN(const auto tables, BenchTables::Create(*client, bench));
  const Clock::time_point start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bench.seconds));
  std::vector<Tally> tallies(static_cast<size_t>(bench.threads));
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < bench.threads; ++i) {
      callers.emplace_back([&, i] { tallies[i] = RunCaller(*client, bench, tables->names(), i, end); });
    }
  }
  Tally total;
  for (const Tally& tally : tallies) total.Add(tally);
  EMBPS_RETURN_IF_ERROR(total.status);
  return ReportBench(bench, total, MicrosSince(start) * 1e-6);
}

}  // namespace embps::tools
