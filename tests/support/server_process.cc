#include "tests/support/server_process.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "proto/base/check.h"

extern char** environ;

namespace embps {
namespace {

// Appends what is there; closes at the end.
void Drain(int& fd, short events, std::string& text) {
  if (fd < 0 || events == 0) return;
  char buffer[4096];
  const ssize_t count = read(fd, buffer, sizeof(buffer));
  if (count > 0) {
    text.append(buffer, static_cast<size_t>(count));
  } else {
    close(fd);
    fd = -1;
  }
}

}  // namespace

ServerProcess::ServerProcess(const std::string& binary, const std::vector<std::string>& flags) {
  int out[2], err[2];
  EMBPS_CHECK(pipe(out) == 0 && pipe(err) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  for (const int fd : {out[0], out[1], err[0], err[1]}) posix_spawn_file_actions_addclose(&actions, fd);
  std::vector<char*> arguments = {const_cast<char*>(binary.c_str())};
  for (const std::string& flag : flags) arguments.push_back(const_cast<char*>(flag.c_str()));
  arguments.push_back(nullptr);
  EMBPS_CHECK(posix_spawn(&pid_, binary.c_str(), &actions, nullptr, arguments.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
  for (const int fd : {out_fd_, err_fd_}) {
    if (fd >= 0) close(fd);
  }
}

bool ServerProcess::ReadSome() {
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  pollfd fds[] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  poll(fds, 2, -1);
  Drain(out_fd_, fds[0].revents, out_);
  Drain(err_fd_, fds[1].revents, err_);
  return true;
}

std::string ServerProcess::AwaitReady() {
  const std::string key = "embps-server ready address=";
  for (;;) {
    const size_t begin = out_.find(key);
    if (begin != std::string::npos && out_.find('\n', begin) != std::string::npos) {
      const size_t at = begin + key.size();
      return out_.substr(at, out_.find(' ', at) - at);
    }
    if (!ReadSome()) return "";
  }
}

void ServerProcess::Signal(int signal) { kill(pid_, signal); }

int ServerProcess::Wait() {
  while (ReadSome()) {
  }
  int status = 0;
  EMBPS_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace embps
