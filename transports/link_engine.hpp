// What engines have in common whose links are agreed on over streams (verbs, ucx): all links of one rank.
#pragma once

#include <poll.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "transports/link_stream.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {

/// `Out` and `In` are the ends of links: with stream(), of type `Stream`, a LinkStream with ready(); progress() and
/// stop(); waiting() and busy() of an Out; attach() of an In.
template <class Out, class In, class Stream>
class LinkEngine : public Transport {
 public:
  bool is_engine() const override { return true; }
  /// The engine reads outgoing messages where they lie.
  Capabilities capabilities(Rank, const Word&) const override { return {.out = {.address = true}, .in = {}}; }

  Status progress(bool& moved) override {
    moved = false;
    if (ended()) return failure_;
    try {
      failure_ = turn(moved);
    } catch (const Error& error) {  // no memory for a buffer, no queue pair or endpoint, or a stream that broke
      failure_ = Status::from(error);
    }
    if (!failure_.ok()) explain(failure_);
    return failure_;
  }

  void stop() override {
    stopped_ = true;
    for (In& in : ins_) in.stop();
    for (Out& out : outs_) out.stop();
  }

  bool sleep(double seconds) override {
    constexpr double kLongest = 1e-3;  // seconds: streams raise no event of the device
    if (descriptor() < 0) return false;
    const bool busy = std::any_of(outs_.begin(), outs_.end(), [](const Out& out) { return out.busy(); });
    if (busy || ended() || !arm()) return true;
    const timespec limit{0, static_cast<long>(std::min(seconds, kLongest) * 1e9)};
    pollfd wait{descriptor(), POLLIN, 0};
    ::ppoll(&wait, 1, &limit, nullptr);
    return true;
  }

 protected:
  explicit LinkEngine(Wireup& wireup) : wireup_(wireup) {}

  /// Moves what can be moved.
  virtual Status turn(bool& moved) = 0;
  /// Reads what the peer has sent on a stream.
  virtual Status read(Stream& stream, bool& moved) = 0;
  /// Adds to a failure's text.
  virtual void explain(Status& failure) { (void)failure; }
  /// A descriptor that becomes readable with the next event after arm() returned true; −1: there is none.
  virtual int descriptor() const = 0;
  virtual bool arm() = 0;

  std::string label(uint32_t link_lane) const { return fmt::format("{}:{}", name(), link_lane); }
  bool ended() const { return stopped_ || !failure_.ok(); }
  bool waiting() const {
    return std::any_of(outs_.begin(), outs_.end(), [](const Out& out) { return out.waiting(); });
  }

  template <class... Args>
  Out& add_out(Args&&... args) {
    ++greeting_;
    return outs_.emplace_back(std::forward<Args>(args)...);
  }
  template <class... Args>
  In& add_in(Args&&... args) {
    ++greeting_;
    expected_.push_back(ins_.size());
    return ins_.emplace_back(std::forward<Args>(args)...);
  }

  /// Is it time to look at what changes rarely: streams, and the device's events?
  bool check_due() {
    constexpr uint32_t kLookEvery = 256;  // turns without progress
    return greeting_ > 0 || ++idle_turns_ % kLookEvery == 0;
  }

  /// Gives streams that peers have opened to the ends that wait for them, and reads all streams.
  Status check_streams(bool& moved) {
    std::erase_if(expected_, [&](size_t index) {
      const LinkStream::Who& who = ins_[index].stream().who();
      std::optional<Fd> taken = wireup_.take_stream(who.peer, label(who.link_lane));
      if (!taken) return false;
      ins_[index].attach(std::move(*taken));
      moved = true;
      return true;
    });
    return read_streams(moved);
  }
  Status read_streams(bool& moved) {
    uint32_t greeting = 0;
    const auto read_one = [&](Stream& stream) {
      Status status = read(stream, moved);
      greeting += stream.ready() ? 0 : 1;
      return status;
    };
    for (Out& out : outs_) {
      if (Status status = read_one(out.stream()); !status.ok()) return status;
    }
    for (In& in : ins_) {
      if (Status status = read_one(in.stream()); !status.ok()) return status;
    }
    greeting_ = greeting;
    return {};
  }

  Status move_ends(bool& moved) {
    for (In& in : ins_) {
      if (Status status = in.progress(moved); !status.ok()) return status;
    }
    for (Out& out : outs_) {
      if (Status status = out.progress(moved); !status.ok()) return status;
    }
    if (moved) idle_turns_ = 0;
    return {};
  }

  /// Ends use what an engine has, so they go before it.
  void remove_ends() {
    ins_.clear();
    outs_.clear();
  }

  /// Peers take the end of a stream without a goodbye for a failure.
  void say_goodbye() {
    for (In& in : ins_) {
      if (in.stream().ready()) in.stream().say_goodbye(in.received());
    }
    for (Out& out : outs_) {
      if (out.stream().ready()) out.stream().say_goodbye(0);
    }
  }

  Wireup& wireup_;
  std::deque<Out> outs_;  // deques: addresses are stable
  std::deque<In> ins_;
  Status failure_;  // the first one; it is permanent
  bool stopped_ = false;

 private:
  std::vector<size_t> expected_;  // of ins_, whose streams have not come yet
  uint32_t greeting_ = 0;         // ends that are not ready
  uint32_t idle_turns_ = 0;
};

}  // namespace tutti::transports
