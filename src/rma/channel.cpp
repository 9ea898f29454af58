#include "rma/channel.hpp"

#include <string_view>

#include "base/format.hpp"
#include "rma/target.hpp"

namespace tutti::rma {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Channel::Channel(transports::Wireup& wireup, Rank peer, const std::atomic<uint32_t>& stop, Deadline deadline)
    : peer_(peer), stop_(stop), stream_(wireup.open_stream(peer, kStreamLabel, deadline)) {}

void Channel::rethrow(const Error& error) const {
  throw_error(error.code(), "requests to rank {}: {}", peer_, error.what());
}

void Channel::send(const Request& request, std::span<const std::byte> bytes, Deadline deadline) try {
  const std::string_view head(reinterpret_cast<const char*>(&request), sizeof request);
  const ptrdiff_t sent = send_now(stream_.get(), head, text_of(bytes));  // mostly all
  if (sent < 0) throw Error(Code::PeerFailed, "the stream has ended");
  const auto done = static_cast<size_t>(sent);
  if (done < head.size()) send_all(stream_.get(), head.substr(done), until(deadline));
  const size_t of_bytes = done > head.size() ? done - head.size() : 0;
  if (of_bytes < bytes.size()) send_all(stream_.get(), text_of(bytes.subspan(of_bytes)), until(deadline));
} catch (const Error& error) {
  rethrow(error);
}

Reply Channel::receive(std::span<std::byte> into, Deadline deadline) try {
  Reply reply;
  recv_all(stream_.get(), &reply, sizeof reply, until(deadline));
  if (reply.magic != Request::kMagic || reply.outcome > Reply::Outcome::OutOfRange) {
    throw Error(Code::ProtocolError, "an invalid answer");
  }
  if (reply.outcome == Reply::Outcome::Done) recv_all(stream_.get(), into.data(), into.size(), until(deadline));
  return reply;
} catch (const Error& error) {
  rethrow(error);
}

Channel& Channels::to(Rank peer, Deadline deadline) {
  std::unique_ptr<Channel>& channel = open_[peer];
  if (channel == nullptr) channel = std::make_unique<Channel>(wireup_, peer, stop_, deadline);
  return *channel;
}

}  // namespace tutti::rma
