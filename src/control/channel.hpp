// Frames to and from one process, driven by the control thread's loop. Nothing here blocks.
//
// A SocketChannel has a connection of its own. Many channels may share one: see control/trunk.hpp.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "control/event_loop.hpp"
#include "control/message_format.hpp"

namespace tutti::control {

class Channel {
 public:
  using Frame =
      std::shared_ptr<const std::string>;  ///< as `pack` makes it; shared, so that many channels may send one frame
  using OnFrame = std::function<void(std::string_view body)>;
  using OnEnd = std::function<void(const std::string& why)>;

  virtual ~Channel() = default;

  /// Starts reading. An exception from `on_frame` ends the channel, as the peer's close does. `on_end` is called at
  /// most once, after all frames that had arrived, and never after close().
  virtual void open(OnFrame on_frame, OnEnd on_end) = 0;
  /// Replaces the callbacks; not from within one.
  virtual void set_callbacks(OnFrame on_frame, OnEnd on_end) = 0;
  /// Queues a frame. The channel ends when more than 1 GiB is queued for a peer that does not read.
  virtual void send(Frame frame) = 0;
  void send(std::string frame) { send(std::make_shared<const std::string>(std::move(frame))); }
  /// Sends a Ping, unless the connection has carried one in the last `seconds`: then false.
  virtual bool ping(double seconds) = 0;
  /// Bytes queued for the peer, on this connection.
  virtual size_t queued() const = 0;
  /// Closes the channel; what the socket has taken still arrives.
  virtual void close() = 0;
  virtual bool is_open() const = 0;
  /// When bytes last arrived over the connection, or reset_silence() was called: since then it is silent.
  virtual Deadline::Clock::time_point heard() const = 0;
  virtual void reset_silence() = 0;
  /// When bytes last arrived.
  virtual Deadline::Clock::time_point last_arrival() const = 0;
};

/// A channel over one authenticated connection.
class SocketChannel final : public Channel, public std::enable_shared_from_this<SocketChannel> {
 public:
  /// Ends the channel at a frame longer than `max_frame`, so that a peer cannot make this process allocate more.
  SocketChannel(EventLoop& loop, Fd fd, size_t max_frame) : loop_(loop), fd_(std::move(fd)), max_frame_(max_frame) {}
  ~SocketChannel() override { SocketChannel::close(); }
  SocketChannel(const SocketChannel&) = delete;
  SocketChannel& operator=(const SocketChannel&) = delete;

  void open(OnFrame on_frame, OnEnd on_end) override;
  void set_callbacks(OnFrame on_frame, OnEnd on_end) override {
    on_frame_ = std::move(on_frame);
    on_end_ = std::move(on_end);
  }
  using Channel::send;
  void send(Frame frame) override { send("", std::move(frame)); }
  /// Sends `head`, then the body of `frame`: the frame without its length. An empty head: the whole frame.
  void send(std::string head, Frame frame);
  bool ping(double seconds) override;
  size_t queued() const override { return queued_; }
  void close() override;
  bool is_open() const override { return static_cast<bool>(fd_); }
  Deadline::Clock::time_point heard() const override { return std::max(silent_since_, last_received_); }
  void reset_silence() override { silent_since_ = Deadline::Clock::now(); }
  Deadline::Clock::time_point last_arrival() const override { return last_received_; }

 private:
  struct Queued {
    std::string head;
    Frame frame;

    std::string_view rest() const { return std::string_view(*frame).substr(head.empty() ? 0 : kFrameLengthBytes); }
    size_t size() const { return head.size() + rest().size(); }
  };

  void on_events(uint32_t events);
  void read_some();
  void handle_frames();
  void write_some();
  bool write_first();
  void end(const std::string& why);

  EventLoop& loop_;
  Fd fd_;
  const size_t max_frame_;
  EventLoop::Id watch_ = 0;
  OnFrame on_frame_;
  OnEnd on_end_;
  std::string in_;
  std::deque<Queued> out_;
  size_t sent_ = 0;           // of out_.front()
  size_t queued_ = 0;         // bytes in out_, less sent_
  bool writing_ = false;      // watching for EPOLLOUT
  bool peer_closed_ = false;  // the peer no longer reads; what it wrote before is still delivered
  Deadline::Clock::time_point last_received_ = Deadline::Clock::now(), silent_since_{}, last_ping_{};
};

}  // namespace tutti::control
