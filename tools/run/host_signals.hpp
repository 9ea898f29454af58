// Signals to ranks on other hosts: over one connection of each host, opened once and kept. A login for each signal
// would take half a second and more.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "base/fd.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {

class HostSignals {
 public:
  /// `launcher`: as Job::launcher.
  HostSignals(std::string launcher, const Inherited& inherited);

  /// Opens the connection to `host`, if there is none yet.
  void open(const std::string& host);
  /// Sends `signal` to all processes of the rank with that process id. False: that host cannot be reached.
  bool send(const std::string& host, int pid, int signal);
  /// Closes all connections; waits up to a second for signals that are on their way.
  void finish();

 private:
  struct Connection {
    Fd lines;  // empty: broken
    pid_t process = -1;
  };
  void start(const std::string& host, Connection& connection);

  std::string launcher_;
  Inherited inherited_;
  std::map<std::string, Connection> connections_;
  bool sent_ = false;
};

}  // namespace tutti::tools
