#include "server/collective/in_process_exchange.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace embps {
namespace {

using Contributions = absl::Span<const Contribution* const>;

absl::Span<const SendTransfer> SendsTo(const Contribution& from, int peer) {
  const auto p = static_cast<size_t>(peer);
  return absl::MakeConstSpan(from.sends).subspan(from.send_begin[p], from.send_begin[p + 1] - from.send_begin[p]);
}

absl::Span<const RecvTransfer> RecvsFrom(const Contribution& to, int peer) {
  const auto p = static_cast<size_t>(peer);
  return absl::MakeConstSpan(to.recvs).subspan(to.recv_begin[p], to.recv_begin[p + 1] - to.recv_begin[p]);
}

absl::Status CheckOperations(int rank, Contributions contributions) {
  const auto mine = contributions[static_cast<size_t>(rank)]->operation;
  for (size_t peer = 0; peer < contributions.size(); ++peer) {
    if (contributions[peer]->operation == mine) continue;
    return absl::InternalError(absl::StrCat("collective: rank ", rank, " calls ", OperationName(mine), ", rank ", peer,
                                            " ", OperationName(contributions[peer]->operation)));
  }
  return absl::OkStatus();
}

absl::Status CheckTransfers(int rank, int peer, const Contribution& mine, const Contribution& theirs) {
  const auto sends = SendsTo(theirs, rank);
  const auto recvs = RecvsFrom(mine, peer);
  const absl::string_view name = OperationName(mine.operation);
  if (sends.size() != recvs.size()) {
    return absl::InternalError(absl::StrCat(name, ": rank ", rank, " expects ", recvs.size(), " transfers from rank ",
                                            peer, ", which sends ", sends.size()));
  }
  for (size_t k = 0; k < sends.size(); ++k) {
    if (sends[k].bytes == recvs[k].bytes) continue;
    return absl::InternalError(absl::StrCat(name, ": rank ", rank, ", transfer ", k, " from rank ", peer, ": expects ",
                                            recvs[k].bytes, " bytes, is sent ", sends[k].bytes));
  }
  return absl::OkStatus();
}

absl::Status ReceiveTransfers(int rank, Contributions contributions) {
  const Contribution& mine = *contributions[static_cast<size_t>(rank)];
  const int world_size = static_cast<int>(contributions.size());
  for (int peer = 0; peer < world_size; ++peer) {
    const absl::Status status = CheckTransfers(rank, peer, mine, *contributions[static_cast<size_t>(peer)]);
    if (!status.ok()) return status;
  }
  for (int i = 0; i < world_size; ++i) {
    const int peer = (rank + i) % world_size;  // ranks start at different peers, so that they share memory bandwidth
    const auto sends = SendsTo(*contributions[static_cast<size_t>(peer)], rank);
    const auto recvs = RecvsFrom(mine, peer);
    for (size_t k = 0; k < sends.size(); ++k) {
      if (sends[k].bytes == 0 || sends[k].data == recvs[k].data) continue;
      std::memcpy(recvs[k].data, sends[k].data, static_cast<size_t>(sends[k].bytes));
    }
  }
  return absl::OkStatus();
}

// Piece by piece, so that the running sums stay in the first-level cache; each element is summed in rank order.
void SumParts(int rank, Contributions contributions, int64_t count, float* out) {
  constexpr int64_t kPieceFloats = 1024;
  float sums[kPieceFloats];
  for (int64_t begin = 0; begin < count; begin += kPieceFloats) {
    const int64_t piece = std::min(kPieceFloats, count - begin);
    for (size_t r = 0; r < contributions.size(); ++r) {
      const float* part = contributions[r]->parts[static_cast<size_t>(rank)] + begin;
      if (r == 0) {
        std::copy(part, part + piece, sums);
      } else {
        for (int64_t i = 0; i < piece; ++i) sums[i] += part[i];
      }
    }
    std::copy(sums, sums + piece, out + begin);
  }
}

absl::Status ReduceParts(int rank, Contributions contributions) {
  const auto r = static_cast<size_t>(rank);
  const int64_t count = contributions[r]->counts[r];
  for (size_t peer = 0; peer < contributions.size(); ++peer) {
    if (contributions[peer]->counts[r] == count) continue;
    return absl::InternalError(absl::StrCat("ReduceScatter: rank ", rank, ", transfer 0 from rank ", peer, ": expects ",
                                            count * 4, " bytes, is sent ", contributions[peer]->counts[r] * 4));
  }
  SumParts(rank, contributions, count, contributions[r]->out);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReceiveAll(int rank, Contributions contributions) {
  if (absl::Status status = CheckOperations(rank, contributions); !status.ok()) return status;
  const bool reduces = contributions[static_cast<size_t>(rank)]->operation == Contribution::Operation::kReduceScatter;
  return reduces ? ReduceParts(rank, contributions) : ReceiveTransfers(rank, contributions);
}

}  // namespace embps
