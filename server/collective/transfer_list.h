// The sends and receives of one AllToAll, in the order in which the stages list them. The k-th send from a to b meets
// the k-th receive of b from a: both sides list features in request order and the tensors of a feature in the same
// order, and both leave out what is empty.
#pragma once
#include <cstdint>
#include <vector>

#include "server/collective/collective.h"

namespace embps {

class TransferList {
 public:
  template <class T>
  void Send(int peer, const T* data, int64_t count) {
    if (count > 0) sends_.push_back({peer, data, count * int64_t{sizeof(T)}});
  }
  template <class T>
  void Recv(int peer, T* data, int64_t count) {
    if (count > 0) recvs_.push_back({peer, data, count * int64_t{sizeof(T)}});
  }
  void Run(Collective& collective, kernels::Stream& stream) const { collective.AllToAll(sends_, recvs_, stream); }

 private:
  std::vector<SendTransfer> sends_;
  std::vector<RecvTransfer> recvs_;
};

}  // namespace embps
