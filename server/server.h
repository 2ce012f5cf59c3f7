// One shard server in one object: what main runs and what tests run in-process.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/backend.h"
#include "kernels/api/parallel_for.h"
#include "server/collective/collective.h"
#include "server/config/server_config.h"
#include "server/env/clock.h"
#include "server/env/logging.h"

namespace embps {

struct ServerOptions {
  ServerConfig config;

  // Made once, at start. Null: the backend that config.backend names.
  std::function<absl::StatusOr<std::unique_ptr<kernels::Backend>>(const ServerConfig&, kernels::ParallelFor*)>
      new_backend = nullptr;
  // Wraps each rank's collective, outside of chunking and counting. Null: nothing is wrapped.
  std::function<std::unique_ptr<Collective>(std::unique_ptr<Collective>)> decorate_collective = nullptr;
  // Borrowed, outlive the server. Null: the machine's clock; no logs.
  const Clock* clock = nullptr;
  const Logger* logger = nullptr;
  // Off only in the test that proves that dedupe matters.
  bool dedupe = true;
};

class Server {
 public:
  // Serves from here on. INVALID_ARGUMENT with all faults of the configuration, UNAVAILABLE when an address is taken.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options);
  // Ends at once: calls in flight are cancelled, what holds a ticket runs out.
  virtual ~Server() = default;

  // As configured, with the real port in place of 0.
  virtual const std::vector<std::string>& addresses() const = 0;
  virtual uint64_t incarnation() const = 0;

  // Not ready any more; new data calls are UNAVAILABLE DRAINING. Returns at once.
  virtual void StartDraining() = 0;
  // StartDraining, watches of the health end, then waits until all calls are finished. DEADLINE_EXCEEDED, saying what
  // it waited for, when that takes longer than `timeout`.
  virtual absl::Status Drain(std::chrono::milliseconds timeout) = 0;

  // For tests that check what is left behind.
  struct Load {
    int64_t calls_in_flight = 0;
    int64_t running = 0;  // calls that hold a ticket
    int64_t waiting = 0;  // calls that wait for one
    int64_t budget_used_bytes = 0;
    int64_t budget_peak_bytes = 0;
    int64_t budget_limit_bytes = 0;
  };
  virtual Load load() const = 0;
};

}  // namespace embps
