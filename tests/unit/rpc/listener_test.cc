#include "server/rpc/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "proto/base/mutex.h"

namespace embps {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

int PortOf(const ListenSocket& socket) { return std::stoi(socket.address().substr(socket.address().rfind(':') + 1)); }

// A plain TCP connection to this machine.
int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  return fd;
}

TEST(ListenSocketTest, PortZeroBecomesARealPortAndATakenOneIsNamed) {
  auto first = ListenSocket::Bind("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(PortOf(*first), 0);
  const auto second = ListenSocket::Bind(first->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), StartsWith("cannot listen on " + first->address()));
}

TEST(ListenSocketTest, NamesAndIpv6AreAccepted) {
  EXPECT_THAT(ListenSocket::Bind("localhost:0")->address(), StartsWith("localhost:"));
  const auto v6 = ListenSocket::Bind("[::1]:0");
  if (v6.ok()) {  // not every machine has it
    EXPECT_THAT(v6->address(), StartsWith("[::1]:"));
  }
  EXPECT_THAT(std::string(ListenSocket::Bind("no.such.host.invalid:0").status().message()),
              HasSubstr("no.such.host.invalid:0"));
}

TEST(ListenSocketTest, AStaleUnixPathIsTakenOverALiveOneIsNot) {
  const std::string path = testing::TempDir() + "listener_test.sock", address = "unix:" + path;
  unlink(path.c_str());
  {
    const auto live = ListenSocket::Bind(address);
    ASSERT_TRUE(live.ok()) << live.status();
    EXPECT_THAT(std::string(ListenSocket::Bind(address).status().message()), HasSubstr("already in use"));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the path goes with the socket";
  close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_TRUE(ListenSocket::Bind(address).ok());
  EXPECT_THAT(std::string(ListenSocket::Bind("unix:" + std::string(200, 'x')).status().message()),
              HasSubstr("too long"));
}

TEST(AcceptLoopTest, ConnectionsBeyondTheBoundAreClosedAtOnceAndLaterOnesAreServedAgain) {
  auto socket = ListenSocket::Bind("127.0.0.1:0");
  ASSERT_TRUE(socket.ok());
  const int port = PortOf(*socket);
  std::vector<ListenSocket> sockets;
  sockets.push_back(*std::move(socket));
  std::vector<int> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(Connect(port));
  // The descriptors that come next: the loop's event and four connections.
  std::vector<int> next;
  for (int i = 0; i < 5; ++i) next.push_back(dup(clients[0]));
  for (const int fd : next) close(fd);
  Mutex mu;
  CondVar changed;
  std::vector<int> accepted;
  AcceptLoop loop(std::move(sockets), next.back() + 1, [&](int, int fd) {
    MutexLock lock(&mu);
    accepted.push_back(fd);
    changed.NotifyAll();
  });
  char byte;
  for (const int refused : {clients[4], clients[5]}) EXPECT_EQ(read(refused, &byte, 1), 0) << "closed at once";
  {
    MutexLock lock(&mu);
    while (accepted.size() < 4) changed.Wait(&mu);
    close(accepted.back());
    accepted.pop_back();
  }
  close(clients[5]);  // its descriptor goes to the new client's end, the one closed above to the server's
  const int later = Connect(port);
  {
    MutexLock lock(&mu);
    while (accepted.size() < 4) changed.Wait(&mu);
    for (const int fd : accepted) close(fd);
  }
  close(later);
  for (int i = 0; i < 5; ++i) close(clients[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace embps
