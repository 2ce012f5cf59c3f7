#include "server/rpc/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "server/env/thread_name.h"

namespace embps {
namespace {

constexpr int kBacklog = 1024;
constexpr int kRetryMs = 100;  // after accept failed for want of resources

absl::Status CannotListen(const std::string& address, const std::string& cause) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", cause));
}

std::string ErrnoText() { return std::generic_category().message(errno); }

bool SomebodyListens(const sockaddr_un& name) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  close(fd);
  return connected;
}

// The bound and listening descriptor.
absl::StatusOr<int> BindUnix(const std::string& address, const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) return CannotListen(address, "the path is too long");
  std::memcpy(name.sun_path, path.data(), path.size());
  if (SomebodyListens(name)) return CannotListen(address, "address already in use");
  unlink(path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 && listen(fd, kBacklog) == 0) return fd;
  const std::string cause = ErrnoText();
  close(fd);
  return CannotListen(address, cause);
}

absl::StatusOr<int> BindTcp(const std::string& address, const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); code != 0) {
    return CannotListen(address, gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  constexpr int kOn = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));  // connections inherit it
  if (bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) return fd;
  const std::string cause = ErrnoText();
  close(fd);
  return CannotListen(address, cause);
}

int BoundPort(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&name);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&name);
  return ntohs(name.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

}  // namespace

absl::StatusOr<ListenSocket> ListenSocket::Bind(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) {
    EMBPS_ASSIGN_OR_RETURN(const int fd, BindUnix(address, address.substr(5)));
    return ListenSocket(fd, address);
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return CannotListen(address, "it is neither HOST:PORT nor unix:PATH");
  const std::string host(absl::StripSuffix(absl::StripPrefix(address.substr(0, colon), "["), "]"));
  EMBPS_ASSIGN_OR_RETURN(const int fd, BindTcp(address, host, address.substr(colon + 1)));
  return ListenSocket(fd, absl::StrCat(address.substr(0, colon), ":", BoundPort(fd)));
}

ListenSocket::ListenSocket(ListenSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), address_(std::move(other.address_)) {}

ListenSocket::~ListenSocket() {
  if (fd_ < 0) return;
  close(fd_);
  if (absl::StartsWith(address_, "unix:")) unlink(address_.substr(5).c_str());
}

int RaiseFileLimit() {
  rlimit limit{};
  EMBPS_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

AcceptLoop::AcceptLoop(std::vector<ListenSocket> sockets, int first_refused_fd, Accepted accepted)
    : sockets_(std::move(sockets)),
      first_refused_fd_(first_refused_fd),
      accepted_(std::move(accepted)),
      wake_fd_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

AcceptLoop::~AcceptLoop() {
  const uint64_t one = 1;
  EMBPS_CHECK(write(wake_fd_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(wake_fd_);
}

void AcceptLoop::Run() {
  SetThreadName("accept");
  std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
  for (const ListenSocket& socket : sockets_) fds.push_back({socket.fd(), POLLIN, 0});
  for (;;) {
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) return;
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents != 0) AcceptAll(fds[i].fd);
    }
  }
}

void AcceptLoop::AcceptAll(int listener_fd) {
  for (;;) {
    const int fd = accept4(listener_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= first_refused_fd_) {
      close(fd);
    } else if (fd >= 0) {
      accepted_(listener_fd, fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      poll(nullptr, 0, kRetryMs);  // the connection keeps waiting in the backlog
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

}  // namespace embps
