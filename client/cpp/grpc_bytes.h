// Messages <-> gRPC buffers, without copying what is large.
#pragma once
#include <grpcpp/support/byte_buffer.h>

#include "client/cpp/transport.h"

namespace embps::client {

// Pieces with an owner go out as slices that hold it; small ones and those without are copied.
grpc::ByteBuffer ToByteBuffer(const Message& message);
// Views of the buffer's slices, which the pieces keep.
Message ToMessage(const grpc::ByteBuffer& buffer);

}  // namespace embps::client
