// A TCP proxy on loopback that cuts its connections: each after a number of bytes of its own, counted both ways. What
// was read when the cut comes is lost, so a server may have applied a request whose reply never arrives.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace embps::testing {

struct FaultProxyOptions {
  uint64_t seed = 1;
  // A connection lives for a number of bytes drawn from [min_bytes, max_bytes].
  int64_t min_bytes = 50'000;
  int64_t max_bytes = 500'000;
};

class FaultProxy {
 public:
  // `target` is "IPV4:PORT". Aborts the test program when it cannot listen.
  FaultProxy(std::string target, const FaultProxyOptions& options);
  // Cuts what is open.
  ~FaultProxy();

  const std::string& address() const { return address_; }
  int64_t cuts() const { return cuts_.load(); }

 private:
  struct Connection;

  void Loop();
  void Accept();
  // False when the connection is over.
  bool Step(Connection& connection, const short* ready);
  bool Forward(Connection& connection, int from);

  const std::string target_;
  const FaultProxyOptions options_;
  std::mt19937_64 random_;
  int listener_ = -1;
  int stop_event_ = -1;
  std::string address_;
  std::atomic<int64_t> cuts_{0};
  std::vector<std::unique_ptr<Connection>> connections_;  // the loop's
  std::thread thread_;
};

}  // namespace embps::testing
