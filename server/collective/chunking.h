// A decorator that cuts every transfer into pieces: bounds what an implementation moves, or buffers, at a time.
#pragma once
#include <cstdint>
#include <memory>

#include "server/collective/collective.h"

namespace embps {

// Same results as `inner`, to the bit, through transfers of at most chunk_bytes each. chunk_bytes >= 1 and the same on
// every rank; a ReduceScatter moves whole floats, at least one. A mismatch is reported with the index and sizes of the
// pieces; the counts of a ReduceScatter must agree between ranks, since they decide how many operations it becomes.
std::unique_ptr<Collective> NewChunkingCollective(std::unique_ptr<Collective> inner, int64_t chunk_bytes);

}  // namespace embps
