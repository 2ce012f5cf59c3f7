// Transport over gRPC: raw bytes over generic stubs and the callback API, several connections to one node.
#pragma once
#include <memory>
#include <string>

#include "client/cpp/scheduler.h"
#include "client/cpp/transport.h"

namespace embps::client {

struct GrpcOptions {
  int channels = 2;           // connections, each of its own; calls take them in turn
  int keepalive_ms = 10'000;  // 0 = off
  int keepalive_timeout_ms = 5'000;
};

// `scheduler` says what time the deadlines are by, and outlives the transports.
std::unique_ptr<TransportFactory> NewGrpcTransportFactory(const GrpcOptions& options, const Scheduler* scheduler);

// Raises glibc's thresholds for giving memory back to the kernel; once per process.
void TuneMallocOnce();

}  // namespace embps::client
