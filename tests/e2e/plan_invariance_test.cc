// Plan invariance, end to end: one seed draws tables and batches, and every cluster, whatever its nodes, ranks, worker
// threads, frame sizes and shardings, must answer and store what one rank with whole tables does (numerics.md section
// 7): outputs within the tolerance of it and of plain loops in double, to the bit where the placement is the same;
// rows, state and step to the bit. Tables whose columns are cut under a norm over the row are compared with the same
// slices on one rank.
//
// EMBPS_FIRST_SEED and EMBPS_SEEDS choose other seeds than the build's.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/plan_invariance_case.h"
#include "tests/e2e/plan_invariance_oracle.h"
#include "tests/support/test_cluster.h"

#ifndef EMBPS_TEST_SCALE
#define EMBPS_TEST_SCALE 0
#endif

namespace embps::testing {
namespace {

// 52 seeds go through all combinations.
constexpr int64_t kSeeds = EMBPS_TEST_SCALE == 1 ? 520 : 53;
constexpr int kBatchesPerSeed = 3;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

struct Gradient {
  std::vector<char> pooled;
  std::vector<std::vector<char>> sequences;
  Gradients view;
};

// In the layout of `result`.
Gradient DrawGradient(Draw& draw, const DrawnBatch& batch, const LookupResult& result) {
  Gradient gradient;
  const auto fill = [&](int64_t count, std::vector<char>& data) {
    data.resize(static_cast<size_t>(count * ElementSize(batch.grad_type)));
    for (int64_t i = 0; i < count; ++i) StoreElement(data.data(), batch.grad_type, i, draw.Real(-1, 1));
    for (int i = 0; i < batch.nonfinite_grads && count > 0; ++i) {
      StoreElement(data.data(), batch.grad_type, draw.Int(0, count - 1), std::numeric_limits<float>::infinity());
    }
  };
  fill(result.pooled.element_count, gradient.pooled);
  gradient.view.dtype = batch.grad_type;
  gradient.view.pooled = gradient.pooled.data();
  gradient.view.pooled_count = result.pooled.element_count;
  gradient.sequences.resize(result.sequences.size());
  for (size_t s = 0; s < result.sequences.size(); ++s) {
    const int64_t count = result.sequences[s].row_count * result.sequences[s].dim;
    fill(count, gradient.sequences[s]);
    gradient.view.sequences.push_back({gradient.sequences[s].data(), count});
  }
  return gradient;
}

std::vector<int64_t> AllIds(const TableSpec& spec) {
  std::vector<int64_t> ids(static_cast<size_t>(spec.row_count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  return ids;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::string DifferenceOfRows(const TableRows& a, const TableRows& b) {
  if (a.step != b.step) return absl::StrCat("step ", a.step, " and ", b.step);
  if (!SameBits(a.state0, b.state0)) return "state0";
  if (!SameBits(a.state1, b.state1)) return "state1";
  if (SameBits(a.values, b.values)) return "";
  for (size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i) {
    if (std::memcmp(&a.values[i], &b.values[i], sizeof(float)) != 0) {
      return absl::StrCat("element ", i, ": ", a.values[i], " and ", b.values[i]);
    }
  }
  return "row count";
}

// A cluster that lives through all seeds.
class Site {
 public:
  Site(std::string name, std::vector<int64_t> ranks_per_node, int workers, bool reference)
      : name_(std::move(name)),
        ranks_(static_cast<int>(ranks_per_node[0])),
        reference_(reference),
        cluster_(std::move(ranks_per_node),
                 [workers](ServerOptions& options) {
                   options.config.workers = workers;
                   if (workers < 2) return;
                   // Small pieces, which must not matter either: calls are streamed, exchanges are cut.
                   options.config.max_unary_bytes = options.config.max_frame_bytes = 64 << 10;
                   options.config.collective_chunk_bytes = 1000;
                 }),
        client_(cluster_.Connect()) {}

  const std::string& name() const { return name_; }
  Client& client() { return *client_; }

  absl::Status Create(const std::vector<DrawnTable>& tables) {
    std::vector<TableConfig> configs;
    for (const DrawnTable& table : tables) {
      configs.push_back(reference_ ? table.Reference() : table.PlacedOn(cluster_.node_count(), ranks_));
    }
    return client_->CreateTables(configs).status();
  }
  absl::Status Drop(const std::vector<DrawnTable>& tables) {
    absl::Status status;
    for (const DrawnTable& table : tables) status.Update(client_->DropTable(table.config.spec.name).status());
    return status;
  }

 private:
  const std::string name_;
  const int ranks_;
  const bool reference_;
  TestCluster cluster_;
  std::unique_ptr<Client> client_;
};

class PlanInvarianceTest : public ::testing::Test {
 protected:
  PlanInvarianceTest() {
    const std::vector<std::pair<const char*, std::vector<int64_t>>> shapes = {
        {"1x1", {1}}, {"1x4", {4}}, {"2x2", {2, 2}}, {"3x1", {1, 1, 1}}};
    sites_.push_back(std::make_unique<Site>("reference", std::vector<int64_t>{1}, 1, true));
    // Neighbours of equal shape have equal placements.
    for (const auto& [name, ranks] : shapes) {
      for (int workers : {1, 2}) {
        sites_.push_back(std::make_unique<Site>(absl::StrCat(name, ", ", workers, " threads"), ranks, workers, false));
      }
    }
  }

  void RunSeed(uint64_t seed);
  // Looks up `batch` everywhere; the reference's result comes first.
  void LookupEverywhere(const DrawnBatch& batch, const ExpectedLookup& expected, std::vector<LookupResult>* results);
  void PushEverywhere(const DrawnBatch& batch, const Gradient& gradient, const std::vector<LookupResult>& results);
  void ReadReference();
  void CompareTables();
  // Prints what was hit; `all`: fails unless everything was.
  void ExpectEverythingHit(bool all);

  std::vector<std::unique_ptr<Site>> sites_;  // the reference first
  std::vector<DrawnTable> tables_;            // of this seed
  std::vector<std::vector<float>> rows_;      // [tables] of the reference
  std::vector<int64_t> steps_;                // [tables] pushes that named it
  std::map<Combination, int> hits_;           // batches looked up and pushed with ids
  std::map<std::string, int> traits_;         // batches
  int named_without_ids_ = 0;                 // tables of pushes
};

void PlanInvarianceTest::ReadReference() {
  rows_.clear();
  for (const DrawnTable& table : tables_) {
    const auto read = sites_[0]->client().ReadRows(table.config.spec.name, AllIds(table.config.spec));
    ASSERT_TRUE(read.ok()) << read.status();
    rows_.push_back(read->values);
  }
}

void PlanInvarianceTest::LookupEverywhere(const DrawnBatch& batch, const ExpectedLookup& expected,
                                          std::vector<LookupResult>* results) {
  for (size_t s = 0; s < sites_.size(); ++s) {
    SCOPED_TRACE(sites_[s]->name());
    absl::StatusOr<LookupResult> result = sites_[s]->client().Lookup(batch.kjt, batch.lookup);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(DifferenceTo(expected, *result), "");
    if (s > 0) {
      ASSERT_EQ(DifferenceBetween(expected, results->front(), *result, false), "") << "to the reference";
    }
    if (s > 0 && s % 2 == 0) {
      ASSERT_EQ(DifferenceBetween(expected, results->back(), *result, true), "") << "to the same placement";
    }
    results->push_back(*std::move(result));
  }
}

void PlanInvarianceTest::PushEverywhere(const DrawnBatch& batch, const Gradient& gradient,
                                        const std::vector<LookupResult>& results) {
  for (size_t s = 0; s < sites_.size(); ++s) {
    SCOPED_TRACE(sites_[s]->name());
    PushOptions options = batch.push;
    options.token = results[s].token;
    const PushOutcome outcome = sites_[s]->client().PushGrad(batch.kjt, gradient.view, options);
    ASSERT_TRUE(outcome.ok()) << outcome.status;
    EXPECT_FALSE(outcome.nodes.empty());
  }
}

void PlanInvarianceTest::CompareTables() {
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableSpec& spec = tables_[t].config.spec;
    const std::vector<int64_t> ids = AllIds(spec);
    absl::StatusOr<TableRows> reference;
    for (const auto& site : sites_) {
      absl::StatusOr<TableRows> rows = site->client().ReadRows(spec.name, ids, /*with_state=*/true);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(rows->step, steps_[t]) << site->name() << ", table " << spec.name;
      if (site == sites_[0]) {
        reference = std::move(rows);
        continue;
      }
      EXPECT_EQ(DifferenceOfRows(*reference, *rows), "")
          << site->name() << ", table " << spec.name << " [" << spec.row_count << ", " << spec.dim << "] "
          << Name(spec.row_type) << " " << Name(spec.optimizer.type) << " " << Name(tables_[t].config.pooling) << " "
          << Name(tables_[t].config.sharding.type) << " slices " << tables_[t].config.sharding.column_slices;
    }
  }
}

void PlanInvarianceTest::RunSeed(uint64_t seed) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Draw draw(seed * 2);
  tables_ = DrawTables(seed);
  steps_.assign(tables_.size(), 0);
  for (const auto& site : sites_) {
    const absl::Status created = site->Create(tables_);
    ASSERT_TRUE(created.ok()) << site->name() << ": " << created;
  }
  for (int b = 0; b < kBatchesPerSeed; ++b) {
    SCOPED_TRACE(absl::StrCat("batch ", b));
    ASSERT_NO_FATAL_FAILURE(ReadReference());
    const DrawnBatch batch = DrawBatch(draw, tables_, b == 0);
    const ExpectedLookup expected = ExpectLookup(tables_, batch, rows_);
    std::vector<LookupResult> results;
    ASSERT_NO_FATAL_FAILURE(LookupEverywhere(batch, expected, &results));
    ASSERT_NO_FATAL_FAILURE(PushEverywhere(batch, DrawGradient(draw, batch, results[0]), results));
    for (size_t t = 0; t < tables_.size(); ++t) {
      steps_[t] += expected.named[t];
      if (expected.touched[t]) ++hits_[tables_[t].combination()];
      if (expected.named[t] && !expected.touched[t]) ++named_without_ids_;
    }
    for (const std::string& trait : TraitsOf(batch)) ++traits_[trait];
  }
  // Copies of one table on several ranks are seen by lookups alone.
  ASSERT_NO_FATAL_FAILURE(ReadReference());
  const DrawnBatch last = DrawBatch(draw, tables_, /*first=*/true);
  std::vector<LookupResult> results;
  ASSERT_NO_FATAL_FAILURE(LookupEverywhere(last, ExpectLookup(tables_, last, rows_), &results));
  ASSERT_NO_FATAL_FAILURE(CompareTables());
  for (const auto& site : sites_) ASSERT_TRUE(site->Drop(tables_).ok());
}

void PlanInvarianceTest::ExpectEverythingHit(bool all) {
  std::map<std::string, int> counts;
  int fewest = std::numeric_limits<int>::max();
  for (const auto& [combination, hits] : hits_) {
    const auto& [type, optimizer, row_type, pooling] = combination;
    for (absl::string_view name : {Name(type), Name(optimizer), Name(row_type), Name(pooling)}) {
      counts[std::string(name)] += hits;
    }
    fewest = std::min(fewest, hits);
  }
  std::printf("Lookups and pushes with ids, by what their tables are:\n");
  for (const auto& [name, hits] : counts) std::printf("  %-22s %6d\n", name.c_str(), hits);
  std::printf("%d of %d combinations hit, the rarest %d times\nBatches with\n", static_cast<int>(hits_.size()),
              kCombinations, fewest);
  for (const auto& [name, batches] : traits_) std::printf("  %-22s %6d\n", name.c_str(), batches);
  std::map<std::string, uint64_t> calls;
  for (const auto& site : sites_) {
    for (const NodeStats& node : site->client().Stats()) {
      for (const CallStats& call : node.calls) calls[call.method] += call.ok;
    }
  }
  std::printf("%d tables pushed without ids; calls of all servers:\n", named_without_ids_);
  for (const auto& [method, count] : calls) std::printf("  %-22s %6d\n", method.c_str(), static_cast<int>(count));
  if (!all) return;
  EXPECT_EQ(hits_.size(), static_cast<size_t>(kCombinations));
  EXPECT_EQ(traits_.size(), static_cast<size_t>(kTraits));
  EXPECT_GT(named_without_ids_, 0);
  for (const char* method : {"Lookup", "LookupStream", "PushGrad", "PushGradStream"}) EXPECT_GT(calls[method], 0u);
}

TEST_F(PlanInvarianceTest, NoPlacementChangesWhatIsAnsweredOrStored) {
  const int64_t first = FromEnvironment("EMBPS_FIRST_SEED", 1);
  const int64_t seeds = FromEnvironment("EMBPS_SEEDS", kSeeds);
  std::printf("%d seeds from %d on\n", static_cast<int>(seeds), static_cast<int>(first));
  for (int64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) RunSeed(static_cast<uint64_t>(seed));
  ExpectEverythingHit(seeds >= kSeeds && !HasFailure());
}

}  // namespace
}  // namespace embps::testing
