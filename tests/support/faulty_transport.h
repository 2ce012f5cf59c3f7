// Transports that drop, delay, duplicate and reorder the data calls of a client, by the throw of a seeded die. Control
// calls pass.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "client/cpp/scheduler.h"
#include "client/cpp/transport.h"
#include "proto/base/mutex.h"

namespace embps::testing {

// Probabilities, each thrown for each attempt. The caller learns UNAVAILABLE of whatever it does not learn the truth
// of.
struct FaultRates {
  double drop_request = 0.03;       // never sent
  double delay_request = 0.10;      // sent later, so that others overtake it
  double drop_reply = 0.05;         // the server answers, the caller does not get it
  double delay_reply = 0.10;        // the caller gets it later
  double abandon = 0.03;            // pushes: the caller gives up at once, the request arrives later all the same
  double duplicate_request = 0.05;  // pushes: a copy arrives on its own, at once or after others
  double duplicate_reply = 0.05;    // pushes: the caller gets it twice
  int max_delay_ms = 10;
};

// What happened, over all transports of one factory.
struct FaultCounts {
  std::atomic<int64_t> requests_dropped{0}, requests_delayed{0}, requests_abandoned{0}, requests_duplicated{0};
  std::atomic<int64_t> replies_delayed{0}, replies_duplicated{0};
  std::atomic<int64_t> push_replies_lost{0};  // the server had said OK: it had applied the push
  std::atomic<int64_t> copies_answered{0};    // abandoned requests and copies that the server answered with OK
};

class FaultyTransportFactory final : public client::TransportFactory {
 public:
  // `scheduler` and `counts` outlive the transports.
  FaultyTransportFactory(std::shared_ptr<client::TransportFactory> inner, client::Scheduler* scheduler,
                         const FaultRates& rates, uint64_t seed, FaultCounts* counts);
  ~FaultyTransportFactory() override;
  // The transport's destructor waits for delayed calls and copies too.
  std::unique_ptr<client::Transport> Connect(const std::string& endpoint) override;

 private:
  const std::shared_ptr<client::TransportFactory> inner_;
  client::Scheduler* const scheduler_;
  const FaultRates rates_;
  FaultCounts* const counts_;
  Mutex mu_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_);  // seeds of transports
};

}  // namespace embps::testing
