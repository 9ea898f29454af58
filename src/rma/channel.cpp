#include "rma/channel.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "rma/target.hpp"
#include "transports/pod_text.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {
namespace {

constexpr double kLook = 50e-3;  // seconds between two looks at what ends a wait

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void throw_ended() { throw Error(Code::PeerFailed, "the stream has ended"); }

/// Runs work(); its error names the peer.
template <class Work>
auto named(Rank peer, const Ends& ends, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() == Code::InvalidUsage) throw;  // it has left
    if (error.code() == Code::PeerFailed && leaves(peer, ends)) throw_left(peer);
    throw_error(error.code(), "requests to rank {}: {}", peer, error.what());
  }
}

}  // namespace

Channel::Channel(transports::Wireup& wireup, Rank peer, const Ends& ends, Deadline deadline)
    : peer_(peer),
      ends_(ends),
      stream_(named(peer, ends, [&] { return wireup.open_stream(peer, kStreamLabel, deadline); })) {}

/// Until the stream can go on.
void Channel::await(short events, const Patience& patience) const {
  for (;;) {
    pollfd entry{stream_.get(), events, 0};
    if (::poll(&entry, 1, patience.end().poll_ms(static_cast<int>(kLook * 1e3))) > 0) return;
    if (ends_.stop.load(std::memory_order_relaxed) != 0) throw Error(Code::Aborted, "stopped");
    if (ends_.has_left(peer_)) throw_left(peer_);
    if (patience.end().passed()) {
      throw_error(Code::Timeout, "the other end did not go on for {} s", patience.seconds());
    }
  }
}

void Channel::send_all(std::string_view bytes, Patience& patience) {
  while (!bytes.empty()) {
    const ptrdiff_t sent = send_now(stream_.get(), bytes);
    if (sent < 0) throw_ended();
    sent == 0 ? await(POLLOUT, patience) : patience.renew();
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void Channel::receive_all(std::span<std::byte> into, Patience& patience) {
  while (!into.empty()) {
    const ptrdiff_t got = recv_now(stream_.get(), into.data(), into.size());
    if (got < 0) throw_ended();
    got == 0 ? await(POLLIN, patience) : patience.renew();
    into = into.subspan(static_cast<size_t>(got));
  }
}

/// Bytes of a put, as many as its request has said. False: this process may not read all of them, and zeros were sent
/// in place of those from some one on.
bool Channel::send_bytes(std::span<const std::byte> bytes, Patience& patience) {
  static constexpr std::byte kNothing[4096]{};
  bool is_read = true;
  while (!bytes.empty()) {
    const auto from = is_read ? bytes : std::span(kNothing).first(std::min(bytes.size(), sizeof kNothing));
    const ptrdiff_t sent = send_now(stream_.get(), text_of(from));
    if (sent < 0) {
      if (errno != EFAULT || !is_read) throw_ended();
      is_read = false;
      continue;
    }
    sent == 0 ? await(POLLOUT, patience) : patience.renew();
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return is_read;
}

/// Bytes of a get. False: this process may not write to all of them, and the rest was received into nothing.
bool Channel::receive_bytes(std::span<std::byte> into, Patience& patience) {
  std::byte nowhere[4096];
  bool is_written = true;
  while (!into.empty()) {
    const auto to = is_written ? into : std::span(nowhere).first(std::min(into.size(), sizeof nowhere));
    errno = 0;  // an end is no error of the system
    const ptrdiff_t got = recv_now(stream_.get(), to.data(), to.size());
    if (got < 0) {
      if (errno != EFAULT || !is_written) throw_ended();
      is_written = false;
      continue;
    }
    got == 0 ? await(POLLIN, patience) : patience.renew();
    into = into.subspan(static_cast<size_t>(got));
  }
  return is_written;
}

void Channel::send(const Request& request, std::span<const std::byte> bytes, double limit) {
  Patience patience(limit);
  send(request, bytes, patience);
}

void Channel::send(const Request& request, std::span<const std::byte> bytes, Patience& patience) {
  const bool is_read = named(peer_, ends_, [&] {
    const std::string_view head(reinterpret_cast<const char*>(&request), sizeof request);
    const ptrdiff_t sent = send_now(stream_.get(), head, text_of(bytes));  // mostly all
    if (sent < 0 && errno == EFAULT) return false;                         // nothing was sent
    if (sent < 0) throw_ended();
    const auto done = static_cast<size_t>(sent);
    if (done < head.size()) send_all(head.substr(done), patience);
    return send_bytes(bytes.subspan(done > head.size() ? done - head.size() : 0), patience);
  });
  if (!is_read) throw_unreadable(bytes, peer_);
}

Reply Channel::receive_reply(Patience& patience) {
  Reply reply;
  receive_all(std::as_writable_bytes(std::span(&reply, 1)), patience);
  if (reply.magic != Request::kMagic || reply.outcome > Reply::Outcome::Refused) {
    throw Error(Code::ProtocolError, "an invalid answer");
  }
  return reply;
}

uint64_t Channel::ask(const Request& request, std::span<std::byte> into, double limit) {
  Patience patience(limit);
  send(request, {}, patience);
  bool is_written = true;
  const Reply reply = named(peer_, ends_, [&] {
    const Reply first = receive_reply(patience);
    if (into.empty() || first.outcome != Reply::Outcome::Done) return first;
    is_written = receive_bytes(into, patience);
    return receive_reply(patience);
  });
  if (!is_written) throw_unwritable(into);
  const uint64_t window = request.what == Request::What::Flush ? reply.value : request.window;
  switch (reply.outcome) {
    case Reply::Outcome::Done:
      return reply.value;
    case Reply::Outcome::NoWindow:
      throw_closed(peer_, window, Closed::Deregistered, ends_);
    case Reply::Outcome::Unmapped:
      throw_unmapped(peer_, window);
    case Reply::Outcome::OutOfRange:
    case Reply::Outcome::Refused:
      break;
  }
  throw_error(Code::InvalidArgument, "rank {} says that the bytes do not lie in its part of the window of call {}",
              peer_, window);
}

std::string Channel::connect(const std::string& offer, double limit) {
  Patience patience(limit);
  send({.what = Request::What::Connect, .bytes = offer.size()}, std::as_bytes(std::span(offer)), patience);
  const Reply reply = named(peer_, ends_, [&] { return receive_reply(patience); });
  std::string text(std::min(reply.value, Reply::kMaxText), '\0');
  named(peer_, ends_, [&] { receive_all(std::as_writable_bytes(std::span(text)), patience); });
  if (reply.outcome == Reply::Outcome::Done && text.size() == reply.value) return text;
  throw_error(Code::Unsupported, "rank {} says: {}", peer_, transports::printable_reply(text));
}

void Channel::flush(double limit) { ask({.what = Request::What::Flush}, {}, limit); }

}  // namespace tutti::rma
