// Links between hosts: TCP connections, opened by the writer of a link.
//
// An engine: messages go from a ring in the writer's process to a ring in the reader's. The kernel's buffers in between
// stop a writer whose reader lags. An edge-triggered epoll set reports which streams can continue, so a turn with
// nothing to do costs one system call for any number of links. A rank that reads few streams asks them directly, which
// saves that call for each message.
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "topo/constants.hpp"
#include "transports/tcp/receiver.hpp"
#include "transports/tcp/sender.hpp"
#include "transports/tcp/state.hpp"
#include "transports/tcp/streams.hpp"
#include "transports/tcp/traffic.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

class Tcp final : public Transport {
 public:
  explicit Tcp(const Context& context)
      : wireup_(*context.wireup), opener_(wireup_), events_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!events_) throw_system("open epoll for tcp", errno);
  }

  const char* name() const override { return "tcp"; }
  bool is_engine() const override { return true; }

  Reach probe(Rank) const override {
    return {.ok = true, .alpha = machine_constants().tcp_alpha, .beta = machine_constants().tcp_beta};
  }

  /// The engine reads outgoing messages where they lie.
  Capabilities capabilities(Rank, const Word&) const override { return {.out = {.address = true}, .in = {}}; }

  link::OutLink connect_out(Rank peer, uint32_t link_lane, Deadline deadline) override {
    tcp::Sender& sender = senders_.emplace_back(opener_.open(peer, link_lane, deadline), peer, link_lane);
    for (uint32_t i = 0; i < sender.streams(); ++i) {
      watch(sender.fd(i), EPOLLOUT | EPOLLET, {senders_.size() - 1, i, Kind::Sender});
      traffic_.add_out(peer, link_lane, sender.fd(i));
    }
    return sender.link();
  }

  /// The streams may come later: progress() takes them when they come.
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline) override {
    receivers_.emplace_back(peer, link_lane);
    expected_.push_back(receivers_.size() - 1);
    return receivers_.back().link();
  }

  Status progress(bool& moved) override {
    moved = false;
    if (stopped_ || !failure_.ok()) return failure_;
    const bool ask = streams_read_ <= kAskedDirectly;
    if (!ask || blocked()) collect_events();
    failure_ = attach_arrivals();
    for (size_t i = 0; i < senders_.size() && failure_.ok(); ++i) failure_ = senders_[i].progress(moved);
    for (size_t i = 0; i < receivers_.size() && failure_.ok(); ++i) {
      failure_ = receivers_[i].progress(moved, ask);
      if (receivers_[i].streams() > 0 && receivers_[i].streams() < receivers_[i].streams_expected()) expect(i);
    }
    return failure_;
  }

  bool flushed() const override {
    return std::none_of(senders_.begin(), senders_.end(), [](const tcp::Sender& s) { return s.waiting(); });
  }

  void stop() override {
    stopped_ = true;
    for (tcp::Sender& sender : senders_) sender.stop();
  }

  bool sleep(double seconds) override {
    if (collect_events() || busy()) return true;
    constexpr double kLookForStreams = 1e-3;  // seconds: a new stream raises no event
    if (!expected_.empty()) seconds = std::min(seconds, kLookForStreams);
    const double whole = std::floor(seconds);
    const timespec most{static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
    pollfd wait{events_.get(), POLLIN, 0};
    ::ppoll(&wait, 1, &most, nullptr);
    return true;
  }

  std::vector<Traffic> traffic() const override { return traffic_.read(); }

 private:
  static constexpr uint32_t kAskedDirectly = 4;  // streams

  enum class Kind : uint8_t { Sender, Receiver };
  /// What an event is about.
  struct Source {
    size_t link = 0;
    uint32_t stream = 0;
    Kind kind = Kind::Sender;
  };

  void watch(int fd, uint32_t what, const Source& source) {
    epoll_event event{};
    event.events = what;
    event.data.u64 = source.link << 16 | source.stream << 1 | static_cast<uint64_t>(source.kind);
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw_error(Code::SystemError, "tcp: epoll_ctl: {}", std::strerror(errno));
    }
  }

  /// Is there a sender that only an event can wake?
  bool blocked() const {
    return std::any_of(senders_.begin(), senders_.end(), [](const tcp::Sender& s) { return s.blocked(); });
  }
  bool busy() {
    return std::any_of(senders_.begin(), senders_.end(), [](const tcp::Sender& s) { return s.busy(); }) ||
           std::any_of(receivers_.begin(), receivers_.end(), [](tcp::Receiver& r) { return r.busy(); });
  }

  /// Wakes the links whose streams can continue; true if there were any. Events beyond the first 64 come with the next
  /// call.
  bool collect_events() {
    std::array<epoll_event, 64> ready;
    const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<size_t>(i)];
      const size_t link = event.data.u64 >> 16;
      const auto stream = static_cast<uint32_t>(event.data.u64 >> 1 & 0x7fff);
      if ((event.data.u64 & 1) == static_cast<uint64_t>(Kind::Sender)) {
        senders_[link].wake(stream);
      } else {
        receivers_[link].wake(stream, (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
      }
    }
    return count > 0;
  }

  void expect(size_t receiver) {
    if (std::find(expected_.begin(), expected_.end(), receiver) == expected_.end()) expected_.push_back(receiver);
  }

  /// Gives streams that peers have opened to the receivers that wait for them.
  Status attach_arrivals() {
    for (size_t i = 0; i < expected_.size();) {
      tcp::Receiver& receiver = receivers_[expected_[i]];
      try {
        while (receiver.streams() < receiver.streams_expected()) {
          const uint32_t number = receiver.streams();
          std::optional<Fd> stream = wireup_.take_stream(receiver.peer(), tcp::label_of(receiver.link_lane(), number));
          if (!stream) break;
          const int fd = receiver.attach(std::move(*stream));
          watch(fd, EPOLLIN | EPOLLRDHUP | EPOLLET, {expected_[i], number, Kind::Receiver});
          traffic_.add_in(receiver.peer(), receiver.link_lane(), fd);
          ++streams_read_;
        }
      } catch (const Error& error) {
        return Status::from(error);
      }
      if (receiver.streams() < receiver.streams_expected()) {
        ++i;
      } else {
        expected_.erase(expected_.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    return {};
  }

  Wireup& wireup_;
  tcp::StreamOpener opener_;
  const Fd events_;
  std::deque<tcp::Sender> senders_;  // a deque: addresses are stable
  std::deque<tcp::Receiver> receivers_;
  tcp::StreamTraffic traffic_;
  std::vector<size_t> expected_;  // receivers of which a stream has not come yet
  uint32_t streams_read_ = 0;
  Status failure_;  // the first one; it is permanent
  bool stopped_ = false;
};

const TransportRegistration tcp_entry({.name = "tcp",
                                       .summary = "hosts, over TCP connections",
                                       .preference = 50,
                                       .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                         return std::make_unique<Tcp>(context);
                                       },
                                       .state = tcp::state,
                                       .between_hosts = true});

}  // namespace
}  // namespace tutti::transports
