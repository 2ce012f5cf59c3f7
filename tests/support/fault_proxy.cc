#include "tests/support/fault_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "proto/base/check.h"

namespace embps::testing {
namespace {

constexpr size_t kReadBytes = 64 << 10;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void Prepare(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // Closing resets the connection, as a crashed peer or a dropped route looks.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

}  // namespace

// Side 0 is the client, side 1 the server. waiting[s] was read from side s and goes to the other one.
struct FaultProxy::Connection {
  int sockets[2] = {-1, -1};
  std::string waiting[2];
  int64_t bytes_left = 0;

  ~Connection() {
    for (int socket : sockets) {
      if (socket >= 0) close(socket);
    }
  }
};

FaultProxy::FaultProxy(std::string target, const FaultProxyOptions& options)
    : target_(std::move(target)), options_(options), random_(options.seed) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  stop_event_ = eventfd(0, EFD_CLOEXEC);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  EMBPS_CHECK(listener_ >= 0 && stop_event_ >= 0);
  EMBPS_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  EMBPS_CHECK(listen(listener_, SOMAXCONN) == 0);
  EMBPS_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  thread_ = std::thread([this] { Loop(); });
}

FaultProxy::~FaultProxy() {
  const uint64_t one = 1;
  EMBPS_CHECK(write(stop_event_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(listener_);
  close(stop_event_);
}

void FaultProxy::Loop() {
  for (;;) {
    std::vector<pollfd> polled = {{stop_event_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& connection : connections_) {
      for (int side = 0; side < 2; ++side) {
        int events = connection->waiting[side].empty() ? POLLIN : 0;
        if (!connection->waiting[1 - side].empty()) events |= POLLOUT;
        polled.push_back({connection->sockets[side], static_cast<short>(events), 0});
      }
    }
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) return connections_.clear();
    for (size_t i = 0; i < connections_.size(); ++i) {
      const short ready[2] = {polled[2 + 2 * i].revents, polled[3 + 2 * i].revents};
      if (!Step(*connections_[i], ready)) connections_[i] = nullptr;
    }
    std::erase(connections_, nullptr);
    if (polled[1].revents != 0) Accept();
  }
}

void FaultProxy::Accept() {
  auto connection = std::make_unique<Connection>();
  connection->sockets[0] = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection->sockets[0] < 0) return;
  connection->sockets[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(std::atoi(target_.substr(target_.rfind(':') + 1).c_str()));
  if (connect(connection->sockets[1], reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
  for (int socket : connection->sockets) Prepare(socket);
  connection->bytes_left = std::uniform_int_distribution<int64_t>(options_.min_bytes, options_.max_bytes)(random_);
  connections_.push_back(std::move(connection));
}

bool FaultProxy::Step(Connection& connection, const short* ready) {
  for (int side = 0; side < 2; ++side) {
    std::string& out = connection.waiting[1 - side];
    if ((ready[side] & POLLOUT) != 0 && !out.empty()) {
      const ssize_t sent = send(connection.sockets[side], out.data(), out.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent > 0) out.erase(0, static_cast<size_t>(sent));
    }
    if ((ready[side] & (POLLIN | POLLHUP | POLLERR)) != 0 && connection.waiting[side].empty()) {
      if (!Forward(connection, side)) return false;
    }
  }
  return true;
}

bool FaultProxy::Forward(Connection& connection, int from) {
  std::string& bytes = connection.waiting[from];
  bytes.resize(kReadBytes);
  const ssize_t count = recv(connection.sockets[from], bytes.data(), bytes.size(), 0);
  if (count <= 0) {
    bytes.clear();
    return count < 0 && errno == EAGAIN;
  }
  bytes.resize(static_cast<size_t>(count));
  connection.bytes_left -= count;
  if (connection.bytes_left > 0) return true;
  cuts_.fetch_add(1);
  return false;
}

}  // namespace embps::testing
