#include "tests/contract/collective_contract.h"

#include "server/collective/chunking.h"
#include "server/collective/counting.h"
#include "server/collective/in_process.h"
#include "tests/support/deferred_stream.h"

namespace embps::testing {
namespace {

Collectives InProcess(int world_size) { return NewInProcessCollectives(world_size); }

std::function<Collectives(int)> Chunked(int64_t chunk_bytes) {
  return [chunk_bytes](int world_size) {
    Collectives ranks = InProcess(world_size);
    for (auto& rank : ranks) rank = NewChunkingCollective(std::move(rank), chunk_bytes);
    return ranks;
  };
}

// The counters outlive the collectives by living as long as the process.
Collectives Counted(int world_size) {
  static std::vector<std::unique_ptr<CollectiveCounters>> all;
  CollectiveCounters* counters = all.emplace_back(std::make_unique<CollectiveCounters>(world_size)).get();
  Collectives ranks = InProcess(world_size);
  for (auto& rank : ranks) rank = NewCountingCollective(std::move(rank), counters);
  return ranks;
}

Collectives CountedOverChunked(int world_size) {
  static std::vector<std::unique_ptr<CollectiveCounters>> all;
  CollectiveCounters* counters = all.emplace_back(std::make_unique<CollectiveCounters>(world_size)).get();
  Collectives ranks = Chunked(50)(world_size);
  for (auto& rank : ranks) rank = NewCountingCollective(std::move(rank), counters);
  return ranks;
}

std::unique_ptr<kernels::Stream> NewDeferredStream() {
  return std::make_unique<DeferredStream>(NewImmediateStream(), /*own_thread=*/true);
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveContract,
                         CollectiveCases({{"in_process", InProcess},
                                          {"in_process_deferred", InProcess, NewDeferredStream},
                                          {"chunked_3", Chunked(3)},
                                          {"chunked_64", Chunked(64)},
                                          {"chunked_4096", Chunked(4096)},
                                          {"chunked_64_deferred", Chunked(64), NewDeferredStream},
                                          {"counted", Counted},
                                          {"counted_over_chunked", CountedOverChunked}}),
                         CollectiveCaseName);

}  // namespace
}  // namespace embps::testing
