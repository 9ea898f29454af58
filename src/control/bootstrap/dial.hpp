// The connecting side of the control plane: connects, proves the key, sends one message, gets one back. These calls
// wait, so they are for the user's threads; the accepting side is control/acceptor.hpp.
#pragma once

#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/secret.hpp"
#include "base/socket.hpp"
#include "control/messages.hpp"

namespace tutti::control {

/// Connects to whichever of `addresses` answers first with a proof of `key`, and tries again until the deadline where a
/// connection is reset, closed early or left without an answer: a acceptor that is oversubscribed does that. Throws
/// Error: Timeout; PeerFailed where nothing but refusals came for some seconds: nobody listens; InvalidArgument where
/// somebody does who does not know the key.
Fd dial(const std::vector<Address>& addresses, uint16_t port, const Key& key, WaitLimit limit);
/// The same for an abstract UNIX socket, where one refusal is enough; `same_user`: the listener must be a process of
/// this user.
Fd dial_unix(const std::string& name, const Key& key, WaitLimit limit, bool same_user = false);

/// The body of the next frame. `passed` receives a descriptor that came along (UNIX sockets only). Throws as recv_all,
/// ProtocolError for one longer than `limit`.
std::string receive_frame(int fd, size_t most_bytes, WaitLimit limit, Fd* passed = nullptr);

/// Sends a message and reads the answer as an M; an answer of Refused is thrown as the Error it carries.
template <class M, class Request>
M call(int fd, const Request& request, WaitLimit limit, Fd* passed = nullptr) {
  send_all(fd, pack(request), limit);
  const std::string body = receive_frame(fd, kMaxFirstFrame, limit, passed);
  if (kind_of(body) == Kind::Refused) {
    const auto refused = unpack<Refused>(body);
    throw Error(refused.code, refused.text);
  }
  return unpack<M>(body);
}

}  // namespace tutti::control
