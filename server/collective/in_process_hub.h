// Where the ranks of in_process.h meet. Not for use outside this folder.
//
// Life of a meeting: gathering (ranks arrive with what they give and want) -> exchanging (all are there; each copies
// what it receives) -> over (all have copied). A meeting that a rank does not come to fails while gathering; nobody
// copies then, so no rank ever touches the memory of one that has gone.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "server/collective/collective.h"

namespace embps {

// What one rank brings to a meeting. The pointed-to data is the caller's until the meeting is over.
struct Contribution {
  enum class Operation { kAllToAll, kReduceScatter, kAllGather };
  Operation operation = Operation::kAllToAll;
  // kAllToAll, kAllGather: by peer, and per peer in the caller's order; those of peer p are [begin[p], begin[p + 1]).
  std::vector<SendTransfer> sends;
  std::vector<size_t> send_begin;  // [W + 1]
  std::vector<RecvTransfer> recvs;
  std::vector<size_t> recv_begin;  // [W + 1]
  // kReduceScatter
  std::vector<const float*> parts;  // [W]
  std::vector<int64_t> counts;      // [W], floats
  float* out = nullptr;
};

absl::string_view OperationName(Contribution::Operation operation);

class InProcessHub {
 public:
  InProcessHub(int world_size, std::chrono::milliseconds step_timeout);

  int world_size() const { return world_size_; }

  // Rank `rank` takes part in meeting `number` (its own count of calls). Returns once every rank has what it receives,
  // or none will; all ranks get the same status.
  absl::Status Meet(int rank, uint64_t number, const Contribution& mine);

  // `rank` will come to no meeting from `first_missed` on.
  void Leave(int rank, uint64_t first_missed);

 private:
  struct Meeting {
    std::vector<const Contribution*> contributions;  // [W], by rank; null until it arrives
    int arrived = 0;
    int copied = 0;
    int gone = 0;  // ranks that have their answer
    bool failed_gathering = false;
    int error_rank = 0;  // the lowest rank that found a fault while exchanging: its message is everybody's
    std::string error;   // empty = none
    CondVar changed;
  };

  std::shared_ptr<Meeting> Join(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Gather(Meeting& meeting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FailGathering(Meeting& meeting, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Depart(uint64_t number, Meeting& meeting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool EverybodyGone(uint64_t number, const Meeting& meeting) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int world_size_;
  const std::chrono::milliseconds step_timeout_;

  Mutex mu_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Meeting>> meetings_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> first_missed_ ABSL_GUARDED_BY(mu_);  // [W], UINT64_MAX while the rank is there
};

}  // namespace embps
