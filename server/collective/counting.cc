#include "server/collective/counting.h"

#include <utility>

#include "proto/base/check.h"

namespace embps {
namespace {

class CountingCollective final : public Collective {
 public:
  CountingCollective(std::unique_ptr<Collective> inner, CollectiveCounters* counters,
                     std::function<void(const CollectiveCall&)> observer)
      : inner_(std::move(inner)), counters_(counters), observer_(std::move(observer)) {
    EMBPS_CHECK(counters_ != nullptr && counters_->world_size() == inner_->world_size());
  }

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }

  void AllToAll(absl::Span<const SendTransfer> sends, absl::Span<const RecvTransfer> recvs,
                kernels::Stream& stream) override {
    CollectiveCall call = NewCall(CollectiveOperation::kAllToAll);
    for (const SendTransfer& send : sends) {
      SentCounts& sent = call.sent[static_cast<size_t>(send.peer)];
      sent.calls = 1;
      ++sent.transfers;
      sent.bytes += static_cast<uint64_t>(send.bytes);
    }
    Report(call);
    inner_->AllToAll(sends, recvs, stream);
  }

  void ReduceScatter(absl::Span<const float* const> parts, absl::Span<const int64_t> counts, float* out,
                     kernels::Stream& stream) override {
    CollectiveCall call = NewCall(CollectiveOperation::kReduceScatter);
    for (size_t p = 0; p < counts.size(); ++p) {
      const auto elements = static_cast<uint64_t>(counts[p]);
      call.sent[p] = {1, 1, elements * sizeof(float), elements};
    }
    Report(call);
    inner_->ReduceScatter(parts, counts, out, stream);
  }

  void AllGather(const void* data, int64_t bytes, absl::Span<const RecvTransfer> recvs,
                 kernels::Stream& stream) override {
    CollectiveCall call = NewCall(CollectiveOperation::kAllGather);
    for (SentCounts& sent : call.sent) sent = {1, 1, static_cast<uint64_t>(bytes), 0};
    Report(call);
    inner_->AllGather(data, bytes, recvs, stream);
  }

 private:
  CollectiveCall NewCall(CollectiveOperation operation) {
    return {rank(), calls_++, operation, std::vector<SentCounts>(static_cast<size_t>(world_size()))};
  }
  void Report(const CollectiveCall& call) {
    counters_->Add(call);
    if (observer_) observer_(call);
  }

  const std::unique_ptr<Collective> inner_;
  CollectiveCounters* const counters_;
  const std::function<void(const CollectiveCall&)> observer_;
  uint64_t calls_ = 0;
};

}  // namespace

CollectiveCounters::CollectiveCounters(int world_size)
    : world_size_(world_size), cells_(static_cast<size_t>(kCollectiveOperationCount * world_size * world_size)) {}

const CollectiveCounters::Cell& CollectiveCounters::cell(CollectiveOperation operation, int rank, int peer) const {
  EMBPS_CHECK(rank >= 0 && rank < world_size_ && peer >= 0 && peer < world_size_);
  return cells_[static_cast<size_t>((static_cast<int>(operation) * world_size_ + rank) * world_size_ + peer)];
}

CollectiveCounters::Cell& CollectiveCounters::cell(CollectiveOperation operation, int rank, int peer) {
  return const_cast<Cell&>(std::as_const(*this).cell(operation, rank, peer));
}

void CollectiveCounters::Add(const CollectiveCall& call) {
  for (int peer = 0; peer < world_size_; ++peer) {
    const SentCounts& sent = call.sent[static_cast<size_t>(peer)];
    if (sent.calls == 0) continue;
    Cell& to = cell(call.operation, call.rank, peer);
    to.calls.fetch_add(sent.calls, std::memory_order_relaxed);
    to.transfers.fetch_add(sent.transfers, std::memory_order_relaxed);
    to.bytes.fetch_add(sent.bytes, std::memory_order_relaxed);
    to.elements.fetch_add(sent.elements, std::memory_order_relaxed);
  }
}

SentCounts CollectiveCounters::sent(CollectiveOperation operation, int rank, int peer) const {
  const Cell& from = cell(operation, rank, peer);
  return {from.calls.load(std::memory_order_relaxed), from.transfers.load(std::memory_order_relaxed),
          from.bytes.load(std::memory_order_relaxed), from.elements.load(std::memory_order_relaxed)};
}

uint64_t CollectiveCounters::total_bytes(bool between_ranks) const {
  uint64_t sum = 0;
  for (int operation = 0; operation < kCollectiveOperationCount; ++operation) {
    for (int rank = 0; rank < world_size_; ++rank) {
      for (int peer = 0; peer < world_size_; ++peer) {
        if (between_ranks && rank == peer) continue;
        sum += sent(static_cast<CollectiveOperation>(operation), rank, peer).bytes;
      }
    }
  }
  return sum;
}

std::unique_ptr<Collective> NewCountingCollective(std::unique_ptr<Collective> inner, CollectiveCounters* counters,
                                                  std::function<void(const CollectiveCall&)> observer) {
  return std::make_unique<CountingCollective>(std::move(inner), counters, std::move(observer));
}

}  // namespace embps
