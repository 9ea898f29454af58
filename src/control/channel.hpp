// Frames over one authenticated connection, driven by the control thread's loop. Nothing here ever waits.
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
  using Frame = std::shared_ptr<const std::string>;  ///< as `pack` makes it; shared, so that one may go to many
  using OnFrame = std::function<void(std::string_view body)>;
  using OnEnd = std::function<void(const std::string& why)>;

  /// Frames longer than `max_frame` end the channel: a peer cannot make this process hold more.
  Channel(EventLoop& loop, Fd fd, size_t max_frame) : loop_(loop), fd_(std::move(fd)), max_frame_(max_frame) {}
  ~Channel() { close(); }

  /// Begins to read. `on_frame` may throw: that ends the channel, as the peer's end does. `on_end` comes at most once,
  /// after all frames that had arrived, and not after close().
  void open(OnFrame on_frame, OnEnd on_end);
  /// Goes on with other callbacks; not from within one.
  void hand_over(OnFrame on_frame, OnEnd on_end) {
    on_frame_ = std::move(on_frame);
    on_end_ = std::move(on_end);
  }
  /// Sends behind what is queued. A peer that reads nothing while 1 GiB waits for it ends the channel.
  void send(Frame frame);
  void send(std::string frame) { send(std::make_shared<const std::string>(std::move(frame))); }
  /// Bytes that wait for the peer to read.
  size_t queued() const { return queued_; }
  /// Closes; what the socket has taken still arrives.
  void close();
  bool is_open() const { return static_cast<bool>(fd_); }
  /// When the last bytes arrived.
  Deadline::Clock::time_point heard() const { return heard_; }
  void forgive_silence() { heard_ = Deadline::Clock::now(); }

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
  size_t sent_ = 0;       // of out_.front()
  size_t queued_ = 0;     // bytes in out_, less sent_
  bool writing_ = false;  // the loop tells when the socket takes more
  bool mute_ = false;     // the peer reads no more; what it wrote is still to be read
  Deadline::Clock::time_point heard_ = Deadline::Clock::now();
};

}  // namespace tutti::control
