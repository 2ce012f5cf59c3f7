// How the ranks of one node exchange data. One object per rank; all ranks make the same calls in the same order (the
// sequencer guarantees it), a rank with nothing to send included: it takes part with no transfers.
#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/api/stream.h"
#include "kernels/api/types.h"

namespace embps {

// `bytes` at `data`, to or from rank `peer`. The k-th send from a to b meets the k-th receive of b from a, and both
// have the same size; zero-length transfers are legal and are matched like any other. peer may be the rank itself.
struct SendTransfer {
  int peer = 0;
  const void* data = nullptr;
  int64_t bytes = 0;
};
struct RecvTransfer {
  int peer = 0;
  void* data = nullptr;
  int64_t bytes = 0;
};

class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;  // W

  // Grouped send and receive, uneven and empty parts allowed. The transfer arrays are read during the call; the memory
  // they point to is read and written by the time the stream has run the operation. Returns after enqueueing. Errors
  // (a peer that left, sizes that do not match) surface at the stream's next OnComplete as UNAVAILABLE PEER_DOWN or
  // INTERNAL.
  virtual void AllToAll(absl::Span<const SendTransfer> sends, absl::Span<const RecvTransfer> recvs,
                        kernels::Stream& stream) = 0;

  // out[i] = part_0[i] + part_1[i] + ... in rank order 0 .. W-1, where part_r is what rank r passed for this rank.
  // parts[p]: this rank's contribution for rank p, counts[p] floats; out has counts[rank()] floats, equal on every rank
  // for the same p.
  virtual void ReduceScatter(absl::Span<const float* const> parts, absl::Span<const int64_t> counts, float* out,
                             kernels::Stream& stream) = 0;

  // recv[p] receives what rank p sent; bytes of recv[p] = bytes that rank p sends.
  virtual void AllGather(const void* data, int64_t bytes, absl::Span<const RecvTransfer> recvs,
                         kernels::Stream& stream) = 0;
};

}  // namespace embps
