// The listening half of `reach`: sends back what other hosts send.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"

namespace tutti::tools {

/// What a connection begins with: the token, and the numbers of the host that connects and of the one that it means.
std::string opening(std::string_view token, int from, int to);

class EchoServer {
 public:
  /// Serves at `port`, on a thread of its own. Connections that do not open with `token`, or mean another host
  /// than `self`, are closed. Throws
  /// Error(SystemError) if the port is taken.
  EchoServer(uint16_t port, std::string token, size_t hosts, int self);
  ~EchoServer();
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  /// Waits until every other host has connected and has closed all its connections, or until the deadline.
  void finish(const Deadline& deadline);

 private:
  struct Connection {
    Fd socket;
    std::string opening;  // as far as it has come
    int host = -1;        // until that is complete and right
    std::string to_send;  // bytes to be sent back
  };
  void serve();
  void accept_new();
  bool pump(Connection& connection);
  bool open_with(Connection& connection, std::string_view& bytes) const;
  bool all_done() const;

  const std::string token_;
  const size_t hosts_;
  const int self_;
  Fd listener_;
  std::list<Connection> connections_;
  std::vector<bool> seen_;  // by host: it has connected
  std::atomic<bool> done_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tutti::tools
