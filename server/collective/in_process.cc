#include "server/collective/in_process.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "server/collective/in_process_hub.h"

namespace embps {
namespace {

// Stable by peer: the k-th transfer to a peer keeps its k.
template <class Transfer>
void GroupByPeer(absl::Span<const Transfer> transfers, int world_size, std::vector<Transfer>& grouped,
                 std::vector<size_t>& begin) {
  const auto peers = static_cast<size_t>(world_size);
  begin.assign(peers + 1, 0);
  for (const Transfer& transfer : transfers) {
    EMBPS_CHECK(transfer.peer >= 0 && transfer.peer < world_size && transfer.bytes >= 0);
    ++begin[static_cast<size_t>(transfer.peer) + 1];
  }
  for (size_t p = 0; p < peers; ++p) begin[p + 1] += begin[p];
  grouped.resize(transfers.size());
  std::vector<size_t> next(begin.begin(), begin.end() - 1);
  for (const Transfer& transfer : transfers) grouped[next[static_cast<size_t>(transfer.peer)]++] = transfer;
}

// Operations after a failed exchange still run on what it should have brought: zero lengths and zero ids are safe.
void ClearOutputs(const Contribution& mine, int rank) {
  for (const RecvTransfer& recv : mine.recvs) {
    if (recv.bytes > 0) std::memset(recv.data, 0, static_cast<size_t>(recv.bytes));
  }
  if (mine.out != nullptr) std::fill_n(mine.out, mine.counts[static_cast<size_t>(rank)], 0.0f);
}

class InProcessCollective final : public Collective {
 public:
  InProcessCollective(int rank, std::shared_ptr<InProcessHub> hub) : rank_(rank), hub_(std::move(hub)) {}
  ~InProcessCollective() override { hub_->Leave(rank_, calls_); }

  int rank() const override { return rank_; }
  int world_size() const override { return hub_->world_size(); }

  void AllToAll(absl::Span<const SendTransfer> sends, absl::Span<const RecvTransfer> recvs,
                kernels::Stream& stream) override {
    EnqueueTransfers(Contribution::Operation::kAllToAll, sends, recvs, stream);
  }

  void ReduceScatter(absl::Span<const float* const> parts, absl::Span<const int64_t> counts, float* out,
                     kernels::Stream& stream) override {
    EMBPS_CHECK(static_cast<int>(parts.size()) == world_size() && parts.size() == counts.size());
    Contribution mine;
    mine.operation = Contribution::Operation::kReduceScatter;
    mine.parts.assign(parts.begin(), parts.end());
    mine.counts.assign(counts.begin(), counts.end());
    mine.out = out;
    EnqueueMeeting(std::move(mine), stream);
  }

  void AllGather(const void* data, int64_t bytes, absl::Span<const RecvTransfer> recvs,
                 kernels::Stream& stream) override {
    std::vector<SendTransfer> sends;
    for (int peer = 0; peer < world_size(); ++peer) sends.push_back({peer, data, bytes});
    EnqueueTransfers(Contribution::Operation::kAllGather, sends, recvs, stream);
  }

 private:
  void EnqueueTransfers(Contribution::Operation operation, absl::Span<const SendTransfer> sends,
                        absl::Span<const RecvTransfer> recvs, kernels::Stream& stream) {
    Contribution mine;
    mine.operation = operation;
    GroupByPeer(sends, world_size(), mine.sends, mine.send_begin);
    GroupByPeer(recvs, world_size(), mine.recvs, mine.recv_begin);
    EnqueueMeeting(std::move(mine), stream);
  }

  // Numbered now and met later: the order of the calls decides, whenever the streams run them.
  void EnqueueMeeting(Contribution mine, kernels::Stream& stream) {
    stream.Enqueue([hub = hub_, rank = rank_, number = calls_++, mine = std::move(mine)] {
      absl::Status status = hub->Meet(rank, number, mine);
      if (!status.ok()) ClearOutputs(mine, rank);
      return status;
    });
  }

  const int rank_;
  const std::shared_ptr<InProcessHub> hub_;
  uint64_t calls_ = 0;
};

}  // namespace

absl::Status InProcessCollectiveOptions::Validate() const {
  if (step_timeout_ms > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("step_timeout_ms is ", step_timeout_ms, ", must be > 0"));
}

std::vector<std::unique_ptr<Collective>> NewInProcessCollectives(int world_size,
                                                                 const InProcessCollectiveOptions& options) {
  EMBPS_CHECK(world_size >= 1);
  EMBPS_CHECK(options.Validate().ok());
  auto hub = std::make_shared<InProcessHub>(world_size, std::chrono::milliseconds(options.step_timeout_ms));
  std::vector<std::unique_ptr<Collective>> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.push_back(std::make_unique<InProcessCollective>(rank, hub));
  return ranks;
}

}  // namespace embps
