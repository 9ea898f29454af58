#include "control/communicator_connections.hpp"

#include "base/format.hpp"
#include "base/socket.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/messages.hpp"
#include "control/rendezvous_server.hpp"
#include "control/trunks.hpp"

namespace tutti::control {

/// The client of rank `to`, for a request of rank `from`. Only this function checks `from`: streams and services use it
/// as an index.
std::shared_ptr<ControlClient> CommunicatorConnections::client(Rank to, Rank from) const {
  auto found = control_.client(name_, to);
  if (!found) {
    throw_error(Code::PeerFailed, "rank {} is not in process {} on {} (any more)", to, control_.local_member().process,
                control_.local_member().host_name);
  }
  if (from < 0 || from >= found->ranks()) {
    throw_error(Code::ProtocolError, "a request in the name of rank {}, where ranks are numbered from 0 to {}", from,
                found->ranks() - 1);
  }
  return found;
}

void CommunicatorConnections::on_connection(Fd& fd, std::string_view first) {
  switch (kind_of(first)) {
    case Kind::Register: {
      const auto server = control_.server(name_);
      if (!server) throw_error(Code::InvalidArgument, "this unique id is another job's, or its job has ended");
      return server->admit(unpack<Register>(first), [&] {
        return std::make_shared<SocketChannel>(control_.loop(), std::move(fd), kMaxToServer);
      });
    }
    case Kind::OpenTrunk: {
      const auto trunks = control_.trunks(name_);
      if (!trunks) throw_error(Code::InvalidArgument, "the communicators of this unique id have ended here");
      static_cast<void>(unpack<OpenTrunk>(first));
      return trunks->accept(fd);
    }
    case Kind::Withdraw: {
      if (const auto server = control_.server(name_)) server->withdraw(unpack<Withdraw>(first));
      const std::string accepted = pack(Accepted{});
      send_now(fd.get(), accepted);  // the withdrawing rank may not wait for it
      return;
    }
    case Kind::Fail: {
      const auto failure = unpack<Fail>(first);
      if (failure.code != Code::Revoked)
        throw_error(Code::ProtocolError, "a peer tells of a failure that is no revocation");
      const auto clients = control_.clients(name_);
      if (!clients.empty()) clients.front()->hear_revocation(failure.text);
      send_now(fd.get(), pack(Accepted{}));
      return;
    }
    case Kind::Stream: {
      const auto stream = unpack<OpenStream>(first);
      return client(stream.to, stream.from)->streams().park(stream.from, stream.label, fd);
    }
    case Kind::Ask: {
      auto ask = unpack<Ask>(first);
      const auto asked = client(ask.to, ask.from);
      return asked->services().answer(std::move(ask), fd);
    }
    default:
      throw_error(Code::ProtocolError, "a connection began with a control message of kind {}",
                  static_cast<int>(first[0]));
  }
}

}  // namespace tutti::control
