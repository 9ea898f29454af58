#include "control/channel.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/format.hpp"
#include "base/socket.hpp"

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

void Channel::open(OnFrame on_frame, OnEnd on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  send_without_delay(fd_.get());
  watch_ = loop_.watch(fd_.get(), EPOLLIN, [this](uint32_t events) { on_events(events); });
}

void Channel::send(Frame frame) {
  if (!fd_ || peer_closed_) return;
  if (queued_ + frame->size() > kMaxQueued) {
    // Not from within send(): the caller may be iterating over all its channels.
    peer_closed_ = true;
    loop_.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end("it reads nothing of what is sent to it");
    });
    return;
  }
  queued_ += frame->size();
  out_.push_back(std::move(frame));
  if (out_.size() == 1) write_some();
}

void Channel::close() {
  loop_.unwatch(watch_);
  fd_.reset();
  out_.clear();
  queued_ = 0;
}

void Channel::on_events(uint32_t events) {
  const auto self = shared_from_this();  // a callback may drop the last reference
  if (events & EPOLLOUT) write_some();
  if (fd_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) read_some();
}

void Channel::read_some() {
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

void Channel::handle_frames() {
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

void Channel::write_some() {
  while (fd_ && !out_.empty()) {
    const ptrdiff_t sent = send_now(fd_.get(), std::string_view(*out_.front()).substr(sent_));
    if (sent < 0) {  // on_end_ is called once all that the peer wrote has been read
      peer_closed_ = true;
      out_.clear();
      queued_ = 0;
      break;
    }
    if (sent == 0) break;
    sent_ += static_cast<size_t>(sent);
    queued_ -= static_cast<size_t>(sent);
    if (sent_ == out_.front()->size()) {
      out_.pop_front();
      sent_ = 0;
    }
  }
  if (fd_ && watch_ != 0 && writing_ == out_.empty()) {
    writing_ = !out_.empty();
    loop_.change(watch_, writing_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
}

void Channel::end(const std::string& why) {
  if (!fd_) return;
  close();
  if (on_end_) on_end_(why);
}

}  // namespace tutti::control
