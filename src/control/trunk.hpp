// Many channels over one connection between two processes.
//
// A job may split its communicator hundreds of times (a group for each tensor-, pipeline- and data-parallel dimension).
// Each rank keeps a channel to the rendezvous server of each of them. The channels of a communicator and its splits
// from one process to another share one connection, the trunk, so that a split needs neither a descriptor nor a dial.
// The trunk has proven the key of the communicator that was split first, from which the keys of all splits are derived.
//
// The process that dialed opens the channels and numbers them; either end closes them. A frame of a channel travels as
// Carried, with the channel's number. Ping is sent once for all of them: what is heard on the trunk is heard of the
// process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "control/channel.hpp"
#include "control/messages.hpp"

namespace tutti::control {

/// Belongs to the control thread.
class Trunk : public std::enable_shared_from_this<Trunk> {
 public:
  /// Takes a channel that the peer has opened. A thrown Error is sent back as Refused, and the channel is closed.
  using OnChannel = std::function<void(const std::shared_ptr<Channel>& channel, const OpenChannel& request)>;

  /// `max_frame` is as for SocketChannel. Without `on_channel` the peer may open none.
  Trunk(EventLoop& loop, Fd fd, size_t max_frame, OnChannel on_channel = nullptr);
  ~Trunk();
  Trunk(const Trunk&) = delete;
  Trunk& operator=(const Trunk&) = delete;

  /// Starts reading. `on_end` is called at most once, after all channels have ended, and not if this side closed it.
  void open(std::function<void()> on_end);
  /// Keeps it open for a channel that will be opened. Any thread.
  void reserve() { ++reserved_; }
  /// Opens a reserved channel to the rendezvous server of the communicator of this name, with the body of its first
  /// message.
  std::shared_ptr<Channel> open_channel(const std::string& communicator, const std::string& first);
  /// Closes the connection, once no channel is open.
  void close_when_unused();
  /// False once the connection has ended. Any thread.
  bool is_open() const { return open_; }
  /// False if it has ended, or if it has no channel and nothing arrived in the last `seconds`: a firewall may have
  /// dropped the connection meanwhile. Any thread.
  bool is_alive(double seconds) const;

 private:
  class TrunkChannel;

  void on_frame(std::string_view body);
  void on_open_channel(const OpenChannel& request);
  void on_end(const std::string& why);
  std::shared_ptr<TrunkChannel> add(uint64_t number);
  void remove(uint64_t number);
  void note_heard() { heard_ = Deadline::Clock::now(); }

  EventLoop& loop_;
  const std::shared_ptr<SocketChannel> socket_;
  const OnChannel on_channel_;
  std::function<void()> on_end_;
  std::map<uint64_t, std::weak_ptr<TrunkChannel>> channels_;  // the open ones
  uint64_t next_ = 1;                                         // channel
  bool unwanted_ = false;                                     // it closes when no channel is open
  std::atomic<bool> open_{true};
  std::atomic<size_t> reserved_{0}, in_use_{0};  // channels
  std::atomic<Deadline::Clock::time_point> heard_{Deadline::Clock::now()};
};

}  // namespace tutti::control
