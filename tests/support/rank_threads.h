// One thread per rank, as the sequencer's lanes are, for tests that need no sequencer.
#pragma once
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/api/immediate_stream.h"
#include "proto/base/mutex.h"
#include "server/collective/collective.h"

namespace embps::testing {

using Collectives = std::vector<std::unique_ptr<Collective>>;
using RankBody = std::function<void(Collective& collective, kernels::Stream& stream)>;
using StreamFactory = std::function<std::unique_ptr<kernels::Stream>()>;

inline std::unique_ptr<kernels::Stream> NewImmediateStream() { return std::make_unique<kernels::ImmediateStream>(); }

// Waits for the stream to have run everything.
inline absl::Status Complete(kernels::Stream& stream) {
  Mutex mu;
  CondVar changed;
  bool complete = false;
  absl::Status result;
  stream.OnComplete([&](absl::Status status) {
    MutexLock lock(&mu);
    result = std::move(status);
    complete = true;
    changed.NotifyAll();
  });
  MutexLock lock(&mu);
  while (!complete) changed.Wait(&mu);
  return result;
}

// Calls `body` for every rank at once; returns each rank's status at completion.
inline std::vector<absl::Status> OnEveryRank(const Collectives& ranks, const RankBody& body,
                                             const StreamFactory& new_stream = NewImmediateStream) {
  std::vector<absl::Status> statuses(ranks.size());
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      const std::unique_ptr<kernels::Stream> stream = new_stream();
      body(*ranks[r], *stream);
      statuses[r] = Complete(*stream);
    });
  }
  threads.clear();
  return statuses;
}

}  // namespace embps::testing
