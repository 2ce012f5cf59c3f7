// Accepts connections in place of gRPC, which knows no bound on them: once it has run out of file descriptors, this
// version of it never accepts again.
#pragma once
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace embps {

// A listening socket; closed when destroyed, and its unix path removed.
class ListenSocket {
 public:
  // HOST:PORT (port 0 = any free one, [HOST] for IPv6) or unix:PATH. UNAVAILABLE naming address and cause. A path that
  // is left over from a dead process is taken over, one that somebody listens on is not.
  static absl::StatusOr<ListenSocket> Bind(const std::string& address);
  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&&) = delete;
  ~ListenSocket();

  int fd() const { return fd_; }
  // As bound, with the real port in place of 0.
  const std::string& address() const { return address_; }

 private:
  ListenSocket(int fd, std::string address) : fd_(fd), address_(std::move(address)) {}

  int fd_;
  std::string address_;
};

// Lets this process open as many files as the system allows it; returns how many.
int RaiseFileLimit();

// One thread that accepts on all sockets. Since the kernel gives the lowest free descriptor, a new connection whose
// descriptor is `first_refused_fd` or above means that so many are open: it is closed at once.
class AcceptLoop {
 public:
  // accepted(listening fd, connection): takes the connection, which does not block.
  using Accepted = std::function<void(int listener_fd, int fd)>;
  AcceptLoop(std::vector<ListenSocket> sockets, int first_refused_fd, Accepted accepted);
  // Stops listening; connections stay.
  ~AcceptLoop();

  const std::vector<ListenSocket>& sockets() const { return sockets_; }

 private:
  void Run();
  void AcceptAll(int listener_fd);

  const std::vector<ListenSocket> sockets_;
  const int first_refused_fd_;
  const Accepted accepted_;
  const int wake_fd_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace embps
