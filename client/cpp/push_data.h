// What a push consists of: the caller's arrays, or a copy of them for a replay.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/mutation_queue.h"
#include "embps/client.h"
#include "embps/kjt.h"
#include "embps/options.h"
#include "embps/tensor.h"

namespace embps {
namespace client {

// One node's part over all attempts and replays.
struct PushProgress {
  bool named = false;      // the push names a table of which the node owns a shard
  bool sent = false;       // an attempt may have reached the node
  std::string session_id;  // under which it was first sent
  uint64_t incarnation = 0;
  NodePush result;
};

// Borrowed.
struct PushInput {
  KjtView kjt;
  Gradients gradients;
  PushOptions options;
};

// A deep copy; `input` views it.
struct OwnedPushInput {
  explicit OwnedPushInput(const PushInput& from);
  OwnedPushInput(const OwnedPushInput&) = delete;

  KeyedJaggedTensor kjt;
  std::vector<std::vector<char>> gradients;
  PushInput input;
};

// XXH64 of the whole push before it is split: keys, lengths, ids, weights, strides, inverse indices, gradients, and the
// options that change the result. The same for every attempt and replay.
uint64_t PushDigest(const PushInput& input);

}  // namespace client

inline namespace sdk {

// Keeps the sequence open, and with it the servers' memory of it, until it goes.
class PushReplay {
 public:
  PushReplay(std::shared_ptr<client::MutationQueue> queue, uint64_t sequence, const client::PushInput& input)
      : queue(std::move(queue)), sequence(sequence), data(input) {}
  ~PushReplay() { queue->Settle(sequence); }

  const std::shared_ptr<client::MutationQueue> queue;
  const uint64_t sequence;
  uint64_t digest = 0;
  const client::OwnedPushInput data;
  std::vector<std::pair<std::string, uint64_t>> table_uids;  // that the push names
  // Whoever sets `busy` owns `progress` until it clears it.
  std::atomic<bool> busy{false};
  std::vector<client::PushProgress> progress;  // [N]
};

}  // namespace sdk
}  // namespace embps
