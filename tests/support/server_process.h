// The server binary as a process of its own.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace embps {

class ServerProcess {
 public:
  // Starts `binary` with `flags`; its outputs are collected.
  ServerProcess(const std::string& binary, const std::vector<std::string>& flags);
  // Kills it if it still runs.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // The address in the ready line; "" when the process ended without one.
  std::string AwaitReady();
  void Signal(int signal);
  pid_t pid() const { return pid_; }
  // Exit status, or 128 + signal. Collects the rest of the output.
  int Wait();

  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  // False at the end of both outputs.
  bool ReadSome();

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string out_, err_;
};

}  // namespace embps
