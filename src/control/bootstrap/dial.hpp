// The connecting side of the control plane: connects, proves the key, sends one message, receives one reply. These
// calls block, so they run on the user's threads; the accepting side is control/acceptor.hpp.
#pragma once

#include <string>
#include <vector>

#include "base/address.hpp"
#include "base/secret.hpp"
#include "base/socket.hpp"
#include "control/messages.hpp"

namespace tutti::control {

/// Whether an Error's code tells that a listener was reached and rejects the key, or is none of ours.
constexpr bool is_rejection(Code code) { return code == Code::InvalidArgument || code == Code::ProtocolError; }

/// Connects to the first of `addresses` that proves `key`. Tries again until the deadline after a reset, an early close
/// or no answer, since an overloaded acceptor causes those. Throws Error: Timeout; PeerFailed after a moment of
/// refusals only, since then nothing listens; InvalidArgument if the listener is a Tutti that does not know the key, or
/// of another version; ProtocolError if it is anything else.
/// `from`: the address of this host to connect from; null: any.
Fd dial(const std::vector<Address>& addresses, uint16_t port, const Key& key, WaitLimit limit,
        const Address* from = nullptr);
/// The same for an abstract UNIX socket, where one refusal is final. `same_user`: the listener must be a process of
/// this user.
Fd dial_unix(const std::string& name, const Key& key, WaitLimit limit, bool same_user = false);

/// The body of the next frame. `passed` receives a descriptor sent with it (UNIX sockets only). Throws as recv_all
/// does; ProtocolError for a frame longer than `max_bytes`.
std::string receive_frame(int fd, size_t max_bytes, WaitLimit limit, Fd* passed = nullptr);

/// Sends a message and reads the reply as an M. A reply of Refused is thrown as the Error that it carries.
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
