#include "server/collective/in_process_hub.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/error.h"
#include "server/collective/in_process_exchange.h"

namespace embps {

absl::string_view OperationName(Contribution::Operation operation) {
  switch (operation) {
    case Contribution::Operation::kAllToAll:
      return "AllToAll";
    case Contribution::Operation::kReduceScatter:
      return "ReduceScatter";
    case Contribution::Operation::kAllGather:
      return "AllGather";
  }
  return "";
}

InProcessHub::InProcessHub(int world_size, std::chrono::milliseconds step_timeout)
    : world_size_(world_size),
      step_timeout_(step_timeout),
      first_missed_(static_cast<size_t>(world_size), std::numeric_limits<uint64_t>::max()) {}

absl::Status InProcessHub::Meet(int rank, uint64_t number, const Contribution& mine) {
  std::shared_ptr<Meeting> meeting;
  {
    MutexLock lock(&mu_);
    meeting = Join(number);
    if (!meeting->failed_gathering) {
      meeting->contributions[static_cast<size_t>(rank)] = &mine;
      ++meeting->arrived;
      Gather(*meeting);
    }
    if (meeting->failed_gathering) return Depart(number, *meeting);
  }
  // All have arrived, so the list is fixed, and everybody's memory stays until the last rank has copied. Copying takes
  // no longer than memory does: this phase needs no time-out.
  const absl::Status status = ReceiveAll(rank, meeting->contributions);
  MutexLock lock(&mu_);
  if (!status.ok() && (meeting->error.empty() || rank < meeting->error_rank)) {
    meeting->error = std::string(status.message());
    meeting->error_rank = rank;
  }
  ++meeting->copied;
  if (meeting->copied == world_size_) meeting->changed.NotifyAll();
  while (meeting->copied < world_size_) meeting->changed.Wait(&mu_);
  return Depart(number, *meeting);
}

void InProcessHub::Leave(int rank, uint64_t first_missed) {
  MutexLock lock(&mu_);
  first_missed_[static_cast<size_t>(rank)] = first_missed;
  for (auto it = meetings_.begin(); it != meetings_.end();) {
    const auto here = it++;
    if (here->first >= first_missed) FailGathering(*here->second, absl::StrCat("rank ", rank, " left"));
    if (EverybodyGone(here->first, *here->second)) meetings_.erase(here);
  }
}

std::shared_ptr<InProcessHub::Meeting> InProcessHub::Join(uint64_t number) {
  std::shared_ptr<Meeting>& meeting = meetings_[number];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>();
    meeting->contributions.assign(static_cast<size_t>(world_size_), nullptr);
    for (int rank = 0; rank < world_size_; ++rank) {
      if (first_missed_[static_cast<size_t>(rank)] > number) continue;
      FailGathering(*meeting, absl::StrCat("rank ", rank, " left"));
      break;
    }
  }
  return meeting;
}

void InProcessHub::Gather(Meeting& meeting) {
  if (meeting.arrived == world_size_) {
    meeting.changed.NotifyAll();
    return;
  }
  const auto deadline = std::chrono::steady_clock::now() + step_timeout_;
  while (meeting.arrived < world_size_ && !meeting.failed_gathering) {
    if (meeting.changed.WaitUntil(&mu_, deadline) || meeting.arrived == world_size_) continue;
    std::vector<int> missing;
    for (int rank = 0; rank < world_size_; ++rank) {
      if (meeting.contributions[static_cast<size_t>(rank)] == nullptr) missing.push_back(rank);
    }
    FailGathering(meeting, absl::StrCat("rank ", absl::StrJoin(missing, ", "), " did not come within ",
                                        step_timeout_.count(), " ms"));
  }
}

void InProcessHub::FailGathering(Meeting& meeting, absl::string_view why) {
  if (meeting.failed_gathering || meeting.arrived == world_size_) return;
  meeting.failed_gathering = true;
  meeting.error = absl::StrCat("collective: ", why);
  meeting.changed.NotifyAll();
}

// Each rank makes its own status: copies of one would share a reference count over threads, in a library that
// sanitizers do not see into.
absl::Status InProcessHub::Depart(uint64_t number, Meeting& meeting) {
  absl::Status status;
  if (!meeting.error.empty()) {
    status =
        meeting.failed_gathering ? MakeError(Reason::kPeerDown, meeting.error) : absl::InternalError(meeting.error);
  }
  ++meeting.gone;
  if (EverybodyGone(number, meeting)) meetings_.erase(number);
  return status;
}

bool InProcessHub::EverybodyGone(uint64_t number, const Meeting& meeting) const {
  int expected = 0;
  for (const uint64_t first_missed : first_missed_) expected += number < first_missed ? 1 : 0;
  return meeting.gone >= expected;
}

}  // namespace embps
