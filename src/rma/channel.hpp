// A rank's stream to the agent of a rank that its loads and stores do not reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "rma/part.hpp"
#include "rma/refusals.hpp"
#include "rma/remote_part.hpp"
#include "transports/wireup.hpp"

namespace tutti::rma {

/// One thread at a time uses it. All functions throw Error(Timeout | PeerFailed | Aborted), ProtocolError for an
/// invalid answer, or InvalidUsage if the peer has left, which name the peer; then it cannot be used any more. After
/// InvalidArgument, since this process may not access the bytes, it goes on.
class Channel final : public Connection {
 public:
  Channel(transports::Wireup& wireup, Rank peer, const Ends& ends, Deadline deadline);

  /// `limit`, here and below: seconds without progress.
  void send(const Request& request, std::span<const std::byte> bytes, double limit);
  /// Sends it, and returns the value of the answer, with whose bytes it fills `into`. Throws Error(InvalidUsage) also
  /// if the peer has deregistered the window, or freed its memory.
  uint64_t ask(const Request& request, std::span<std::byte> into, double limit);
  /// Offers a queue pair to the peer's device; the answer. Throws Error(Unsupported) if the peer has none.
  std::string connect(const std::string& offer, double limit);
  void flush(double limit) override;

 private:
  void send(const Request& request, std::span<const std::byte> bytes, Patience& patience);
  Reply receive_reply(Patience& patience);
  bool send_bytes(std::span<const std::byte> bytes, Patience& patience);
  bool receive_bytes(std::span<std::byte> into, Patience& patience);
  void send_all(std::string_view bytes, Patience& patience);
  void receive_all(std::span<std::byte> into, Patience& patience);
  void await(short events, const Patience& patience) const;

  const Rank peer_;
  const Ends& ends_;
  const Fd stream_;
};

}  // namespace tutti::rma
