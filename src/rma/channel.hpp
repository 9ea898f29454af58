// A rank's stream to the agent of a rank that its loads and stores do not reach.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "rma/part.hpp"
#include "transports/wireup.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {

/// What ends waits, beside their deadlines.
struct Ends {
  const std::atomic<uint32_t>& stop;         ///< once it is not 0
  const std::function<bool(Rank)> has_left;  ///< the peer has left the communicator: it answers no more
};

/// One thread at a time uses it. All functions throw Error(Timeout | PeerFailed | Aborted), ProtocolError for an
/// invalid answer, or InvalidUsage if the peer has left, which name the peer; then it cannot be used any more.
class Channel {
 public:
  Channel(transports::Wireup& wireup, Rank peer, const Ends& ends, Deadline deadline);

  void send(const Request& request, std::span<const std::byte> bytes, Deadline deadline);
  /// The answer to the last request, and `into.size()` bytes if that was carried out.
  Reply receive(std::span<std::byte> into, Deadline deadline);

  bool is_dirty = false;  ///< it has had requests without an answer since the last flush

 private:
  void send_rest(std::string_view bytes, Deadline deadline);
  void receive_all(std::span<std::byte> into, Deadline deadline);
  void await(short events, Deadline deadline) const;

  const Rank peer_;
  const Ends& ends_;
  const Fd stream_;
};

/// Those of a communicator's rank, each opened at its first use.
class Channels {
 public:
  Channels(transports::Wireup& wireup, Ends ends)
      : wireup_(wireup), ends_(std::move(ends)), open_(static_cast<size_t>(wireup.ranks())) {}
  Channel& to(Rank peer, Deadline deadline);
  bool is_dirty(Rank peer) const {
    const Channel* const channel = open_[static_cast<size_t>(peer)].get();
    return channel != nullptr && channel->is_dirty;
  }
  /// Throws Error(InvalidUsage) if the peer has left.
  void check_not_left(Rank peer) const;

 private:
  transports::Wireup& wireup_;
  const Ends ends_;
  std::vector<std::unique_ptr<Channel>> open_;  // by rank
};

}  // namespace tutti::rma
