#include "control/channel.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "control/messages.hpp"

namespace tutti::control {
namespace {

constexpr size_t kReadAtOnce = 64 << 10;
constexpr int kReadsPerTurn = 16;  // then other channels are handled
constexpr size_t kMaxQueued = size_t{1} << 30;

size_t frame_length(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < 4; ++i) length |= static_cast<size_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return length;
}

}  // namespace

void SocketChannel::open(OnFrame on_frame, OnEnd on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  send_without_delay(fd_.get());
  watch_ = loop_.watch(fd_.get(), EPOLLIN, [this](uint32_t events) { on_events(events); });
}

void SocketChannel::send(std::string head, Frame frame) {
  if (!fd_ || peer_closed_) return;
  Queued queued{std::move(head), std::move(frame)};
  const size_t size = queued.size();
  if (queued_ + size > kMaxQueued) {
    // Not from within send(): the caller may be iterating over all its channels.
    peer_closed_ = true;
    loop_.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end("it reads nothing of what is sent to it");
    });
    return;
  }
  queued_ += size;
  out_.push_back(std::move(queued));
  if (out_.size() == 1) write_some();
}

bool SocketChannel::ping(double seconds) {
  const auto now = Deadline::Clock::now();
  if (std::chrono::duration<double>(now - last_ping_).count() < seconds) return false;
  last_ping_ = now;
  Channel::send(pack(Ping{}));
  return true;
}

void SocketChannel::close() {
  if (watch_ != 0) loop_.unwatch(watch_);  // else any thread may drop it
  fd_.reset();
  out_.clear();
  queued_ = 0;
}

void SocketChannel::on_events(uint32_t events) {
  const auto self = shared_from_this();  // a callback may drop the last reference
  if (events & EPOLLOUT) write_some();
  if (fd_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) read_some();
}

void SocketChannel::read_some() {
  for (int turn = 0; turn < kReadsPerTurn && fd_; ++turn) {
    std::array<char, kReadAtOnce> buffer;  // on the stack: there may be thousands of channels, and one control thread
    const ptrdiff_t got = recv_now(fd_.get(), buffer.data(), buffer.size());
    if (got == 0) return;
    if (got < 0) return end("its connection closed");
    in_.append(buffer.data(), static_cast<size_t>(got));
    last_received_ = Deadline::Clock::now();
    handle_frames();
    if (got < static_cast<ptrdiff_t>(kReadAtOnce)) return;
  }
}

void SocketChannel::handle_frames() {
  size_t at = 0;
  try {
    while (fd_ && in_.size() - at >= 4) {
      const size_t length = frame_length(std::string_view(in_).substr(at));
      if (length > max_frame_) throw_error(Code::ProtocolError, "a control message of {} bytes", length);
      if (in_.size() - at - 4 < length) break;
      on_frame_(std::string_view(in_).substr(at + 4, length));
      at += 4 + length;
    }
  } catch (const std::exception& error) {
    return end(fmt::format("it sent an invalid message: {}", error.what()));
  }
  in_.erase(0, at);
}

/// Writes of the first queued frame. False if it is not written whole.
bool SocketChannel::write_first() {
  const Queued& first = out_.front();
  const std::string_view head = std::string_view(first.head).substr(std::min(sent_, first.head.size()));
  const std::string_view rest = first.rest().substr(sent_ - (first.head.size() - head.size()));
  const ptrdiff_t sent = head.empty() ? send_now(fd_.get(), rest) : send_now(fd_.get(), head, rest);
  if (sent < 0) {  // on_end_ is called once all that the peer wrote has been read
    peer_closed_ = true;
    out_.clear();
    queued_ = 0;
    return false;
  }
  sent_ += static_cast<size_t>(sent);
  queued_ -= static_cast<size_t>(sent);
  if (sent_ < first.size()) return sent > 0;
  out_.pop_front();
  sent_ = 0;
  return true;
}

void SocketChannel::write_some() {
  while (fd_ && !out_.empty() && write_first()) continue;
  if (fd_ && watch_ != 0 && writing_ == out_.empty()) {
    writing_ = !out_.empty();
    loop_.change(watch_, writing_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

void SocketChannel::end(const std::string& why) {
  if (!fd_) return;
  close();
  if (on_end_) on_end_(why);
}

}  // namespace tutti::control
