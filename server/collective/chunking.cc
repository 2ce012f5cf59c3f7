#include "server/collective/chunking.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/base/check.h"

namespace embps {
namespace {

class ChunkingCollective final : public Collective {
 public:
  ChunkingCollective(std::unique_ptr<Collective> inner, int64_t chunk_bytes)
      : inner_(std::move(inner)), chunk_bytes_(chunk_bytes) {
    EMBPS_CHECK(chunk_bytes_ >= 1);
  }

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }

  void AllToAll(absl::Span<const SendTransfer> sends, absl::Span<const RecvTransfer> recvs,
                kernels::Stream& stream) override {
    inner_->AllToAll(Cut<SendTransfer, const char>(sends), Cut<RecvTransfer, char>(recvs), stream);
  }

  // Every rank knows all counts, so all ranks make the same number of calls.
  void ReduceScatter(absl::Span<const float* const> parts, absl::Span<const int64_t> counts, float* out,
                     kernels::Stream& stream) override {
    const int64_t step = std::max<int64_t>(1, chunk_bytes_ / static_cast<int64_t>(sizeof(float)));
    const int64_t longest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
    std::vector<const float*> piece_parts(parts.size());
    std::vector<int64_t> piece_counts(counts.size());
    int64_t begin = 0;
    do {
      for (size_t p = 0; p < parts.size(); ++p) {
        piece_counts[p] = std::clamp<int64_t>(counts[p] - begin, 0, step);
        piece_parts[p] = piece_counts[p] > 0 ? parts[p] + begin : parts[p];
      }
      const bool writes = piece_counts[static_cast<size_t>(rank())] > 0;
      inner_->ReduceScatter(piece_parts, piece_counts, writes ? out + begin : out, stream);
      begin += step;
    } while (begin < longest);
  }

  // As sends to everybody: pieces of uneven parts need not be of one number, as they would in calls of AllGather.
  void AllGather(const void* data, int64_t bytes, absl::Span<const RecvTransfer> recvs,
                 kernels::Stream& stream) override {
    std::vector<SendTransfer> sends;
    for (int peer = 0; peer < world_size(); ++peer) sends.push_back({peer, data, bytes});
    AllToAll(sends, recvs, stream);
  }

 private:
  // An empty transfer stays one empty transfer.
  template <class Transfer, class Byte>
  std::vector<Transfer> Cut(absl::Span<const Transfer> transfers) const {
    std::vector<Transfer> pieces;
    pieces.reserve(transfers.size());
    for (const Transfer& transfer : transfers) {
      auto* data = static_cast<Byte*>(transfer.data);
      int64_t left = transfer.bytes;
      for (; left > chunk_bytes_; left -= chunk_bytes_, data += chunk_bytes_) {
        pieces.push_back({transfer.peer, data, chunk_bytes_});
      }
      pieces.push_back({transfer.peer, data, left});
    }
    return pieces;
  }

  const std::unique_ptr<Collective> inner_;
  const int64_t chunk_bytes_;
};

}  // namespace

std::unique_ptr<Collective> NewChunkingCollective(std::unique_ptr<Collective> inner, int64_t chunk_bytes) {
  return std::make_unique<ChunkingCollective>(std::move(inner), chunk_bytes);
}

}  // namespace embps
