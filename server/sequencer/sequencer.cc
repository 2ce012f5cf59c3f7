#include "server/sequencer/sequencer.h"

#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/mutex.h"
#include "server/env/thread_name.h"

namespace embps {
namespace {

// One submitted flow in the queue of one lane. The lanes share the count of parts that have not returned.
struct Part {
  std::shared_ptr<Flow> flow;
  uint64_t ticket = 0;
  std::shared_ptr<std::atomic<int>> parts_left;
};

// One rank's queue and the thread that runs it.
class Lane {
 public:
  Lane(int rank, std::unique_ptr<kernels::Stream> stream, std::atomic<uint64_t>* finished)
      : rank_(rank), stream_(std::move(stream)), finished_(finished), thread_([this] { ThreadMain(); }) {}

  void Add(Part part) {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(part));
    part_ready_.NotifyOne();
  }

  void RequestStop() {
    MutexLock lock(&mu_);
    stopping_ = true;
    part_ready_.NotifyOne();
  }

  void Join() { thread_.join(); }

 private:
  void ThreadMain() {
    SetThreadName(absl::StrCat("lane-", rank_));
    for (Part part; Next(part);) {
      part.flow->RunRank(LaneContext{rank_, part.ticket, stream_.get()});
      part.flow = nullptr;  // what it holds goes before the next part starts
      if (part.parts_left->fetch_sub(1, std::memory_order_acq_rel) == 1) {
        finished_->fetch_add(1, std::memory_order_acq_rel);
      }
    }
  }

  // False: stopping, and nothing is left.
  bool Next(Part& part) {
    MutexLock lock(&mu_);
    while (queue_.empty() && !stopping_) part_ready_.Wait(&mu_);
    if (queue_.empty()) return false;
    part = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }

  const int rank_;
  const std::unique_ptr<kernels::Stream> stream_;  // used by the lane's thread only
  std::atomic<uint64_t>* const finished_;

  Mutex mu_;
  CondVar part_ready_;
  std::deque<Part> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace

class Sequencer::State {
 public:
  explicit State(std::vector<std::unique_ptr<kernels::Stream>> streams) {
    EMBPS_CHECK(!streams.empty());
    for (size_t r = 0; r < streams.size(); ++r) {
      lanes_.push_back(std::make_unique<Lane>(static_cast<int>(r), std::move(streams[r]), &finished_));
    }
  }

  ~State() {
    {
      MutexLock lock(&submit_mu_);
      for (auto& lane : lanes_) lane->RequestStop();
    }
    for (auto& lane : lanes_) lane->Join();
  }

  uint64_t Submit(const std::shared_ptr<Flow>& flow) {
    auto parts_left = std::make_shared<std::atomic<int>>(rank_count());
    MutexLock lock(&submit_mu_);
    const uint64_t ticket = submitted_.fetch_add(1, std::memory_order_acq_rel) + 1;
    for (auto& lane : lanes_) lane->Add(Part{flow, ticket, parts_left});
    return ticket;
  }

  int rank_count() const { return static_cast<int>(lanes_.size()); }
  uint64_t finished() const { return finished_.load(std::memory_order_acquire); }
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> finished_{0};
  Mutex submit_mu_;  // held over all lanes' queues, so that their order is one order
  std::vector<std::unique_ptr<Lane>> lanes_;
};

Sequencer::Sequencer(std::vector<std::unique_ptr<kernels::Stream>> streams)
    : state_(std::make_unique<State>(std::move(streams))) {}
Sequencer::~Sequencer() = default;

uint64_t Sequencer::Submit(std::shared_ptr<Flow> flow) {
  EMBPS_CHECK(flow != nullptr);
  return state_->Submit(flow);
}

int Sequencer::rank_count() const { return state_->rank_count(); }
uint64_t Sequencer::finished_count() const { return state_->finished(); }
uint64_t Sequencer::submitted_count() const { return state_->submitted(); }

}  // namespace embps
