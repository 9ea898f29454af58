#include "tools/check/echo_server.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/format.hpp"
#include "base/socket.hpp"

namespace tutti::tools {
namespace {

constexpr int kTurn = 50;             // milliseconds until it looks whether it is to stop
constexpr size_t kMaxHeld = 1 << 20;  // bytes of one connection that wait to be sent back
constexpr size_t kMaxConnections = 1 << 16;
constexpr size_t kHostDigits = 8;

}  // namespace

std::string opening(std::string_view token, int from, int to) {
  return fmt::format("{}{:0{}}{:0{}}", token, from, kHostDigits, to, kHostDigits);
}

EchoServer::EchoServer(uint16_t port, std::string token, size_t hosts, int self)
    : token_(std::move(token)), hosts_(hosts), self_(self), listener_(listen_tcp(port)), seen_(hosts) {
  thread_ = std::thread([this] { serve(); });
}

EchoServer::~EchoServer() {
  stop_ = true;
  thread_.join();
}

void EchoServer::finish(const Deadline& deadline) {
  while (!done_ && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void EchoServer::serve() {
  while (!stop_) {
    std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
    for (const Connection& connection : connections_) {
      const int reads = connection.to_send.size() < kMaxHeld ? POLLIN : 0;
      const int writes = connection.to_send.empty() ? 0 : POLLOUT;
      fds.push_back({connection.socket.get(), static_cast<short>(reads | writes), 0});
    }
    poll(fds.data(), fds.size(), kTurn);
    connections_.remove_if([this](Connection& connection) { return !pump(connection); });
    if (fds.front().revents != 0) accept_new();
    done_ = all_done();
  }
}

void EchoServer::accept_new() {
  Fd socket = accept_now(listener_.get());
  if (!socket || connections_.size() >= kMaxConnections) return;
  send_without_delay(socket.get());
  connections_.push_back({std::move(socket), "", -1, ""});
}

/// False if the connection has ended, or is to be closed.
bool EchoServer::pump(Connection& connection) {
  while (connection.to_send.size() < kMaxHeld) {
    char block[65536];
    const ptrdiff_t got = recv_now(connection.socket.get(), block, sizeof block);
    if (got < 0) return false;
    if (got == 0) break;
    std::string_view bytes(block, static_cast<size_t>(got));
    if (connection.host < 0 && !open_with(connection, bytes)) return false;
    connection.to_send += bytes;
  }
  if (connection.host >= 0) seen_[static_cast<size_t>(connection.host)] = true;
  const ptrdiff_t sent = connection.to_send.empty() ? 0 : send_now(connection.socket.get(), connection.to_send);
  if (sent < 0) return false;
  connection.to_send.erase(0, static_cast<size_t>(sent));
  return true;
}

/// Takes the opening from `bytes`. False if it is wrong.
bool EchoServer::open_with(Connection& connection, std::string_view& bytes) const {
  const size_t wanted = token_.size() + 2 * kHostDigits;
  const size_t taken = std::min(bytes.size(), wanted - connection.opening.size());
  connection.opening += bytes.substr(0, taken);
  bytes.remove_prefix(taken);
  if (connection.opening.size() < wanted) return true;
  for (size_t host = 0; host < hosts_; ++host) {
    if (connection.opening == opening(token_, static_cast<int>(host), self_)) connection.host = static_cast<int>(host);
  }
  return connection.host >= 0;
}

bool EchoServer::all_done() const {
  if (!connections_.empty()) return false;
  for (size_t host = 0; host < hosts_; ++host) {
    if (!seen_[host] && host != static_cast<size_t>(self_)) return false;
  }
  return true;
}

}  // namespace tutti::tools
