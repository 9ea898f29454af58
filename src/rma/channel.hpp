// A rank's stream to the agent of a rank that its loads and stores do not reach.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "base/socket.hpp"
#include "rma/part.hpp"
#include "transports/wireup.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {

/// One thread at a time uses it. All functions throw Error(Timeout | PeerFailed | Aborted), or ProtocolError for an
/// invalid answer, which name the peer; then it cannot be used any more.
class Channel {
 public:
  /// `stop`: ends all waits once it is not 0.
  Channel(transports::Wireup& wireup, Rank peer, const std::atomic<uint32_t>& stop, Deadline deadline);

  void send(const Request& request, std::span<const std::byte> bytes, Deadline deadline);
  /// The answer to the last request, and `into.size()` bytes if that was carried out.
  Reply receive(std::span<std::byte> into, Deadline deadline);

 private:
  WaitLimit until(Deadline deadline) const { return {deadline, &stop_}; }
  [[noreturn]] void rethrow(const Error& error) const;

  const Rank peer_;
  const std::atomic<uint32_t>& stop_;
  const Fd stream_;
};

/// Those of a communicator's rank, each opened at its first use.
class Channels {
 public:
  Channels(transports::Wireup& wireup, const std::atomic<uint32_t>& stop) : wireup_(wireup), stop_(stop) {}
  Channel& to(Rank peer, Deadline deadline);

 private:
  transports::Wireup& wireup_;
  const std::atomic<uint32_t>& stop_;
  std::map<Rank, std::unique_ptr<Channel>> open_;
};

}  // namespace tutti::rma
