// Frames over one authenticated connection, driven by the control thread's loop. Nothing here blocks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "control/event_loop.hpp"

namespace tutti::control {

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Frame =
      std::shared_ptr<const std::string>;  ///< as `pack` makes it; shared, so that many channels may send one frame
  using OnFrame = std::function<void(std::string_view body)>;
  using OnEnd = std::function<void(const std::string& why)>;

  /// Ends the channel at a frame longer than `max_frame`, so that a peer cannot make this process allocate more.
  Channel(EventLoop& loop, Fd fd, size_t max_frame) : loop_(loop), fd_(std::move(fd)), max_frame_(max_frame) {}
  ~Channel() { close(); }

  /// Starts reading. An exception from `on_frame` ends the channel, as the peer's close does. `on_end` is called at
  /// most once, after all frames that had arrived, and never after close().
  void open(OnFrame on_frame, OnEnd on_end);
  /// Replaces the callbacks; not from within one.
  void set_callbacks(OnFrame on_frame, OnEnd on_end) {
    on_frame_ = std::move(on_frame);
    on_end_ = std::move(on_end);
  }
  /// Queues a frame. The channel ends when more than 1 GiB is queued for a peer that does not read.
  void send(Frame frame);
  void send(std::string frame) { send(std::make_shared<const std::string>(std::move(frame))); }
  /// Bytes queued for the peer.
  size_t queued() const { return queued_; }
  /// Closes the channel; what the socket has taken still arrives.
  void close();
  bool is_open() const { return static_cast<bool>(fd_); }
  /// When bytes last arrived.
  Deadline::Clock::time_point heard() const { return last_received_; }
  void reset_silence() { last_received_ = Deadline::Clock::now(); }

 private:
  void on_events(uint32_t events);
  void read_some();
  void handle_frames();
  void write_some();
  void end(const std::string& why);

  EventLoop& loop_;
  Fd fd_;
  const size_t max_frame_;
  EventLoop::Id watch_ = 0;
  OnFrame on_frame_;
  OnEnd on_end_;
  std::string in_;
  std::deque<Frame> out_;
  size_t sent_ = 0;           // of out_.front()
  size_t queued_ = 0;         // bytes in out_, less sent_
  bool writing_ = false;      // watching for EPOLLOUT
  bool peer_closed_ = false;  // the peer no longer reads; what it wrote before is still delivered
  Deadline::Clock::time_point last_received_ = Deadline::Clock::now();
};

}  // namespace tutti::control
