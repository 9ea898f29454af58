// Links between hosts: one TCP connection for each link, opened by its writer.
//
// An engine: messages go from a ring in the writer's process to a ring in the reader's. The kernel's buffers in between
// stop a writer whose reader lags. One edge-triggered epoll set reports which streams can continue, so a turn with
// nothing to do costs one system call for any number of links.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

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
#include "transports/transport.hpp"

namespace tutti::transports {
namespace {

class Tcp final : public Transport {
 public:
  explicit Tcp(const Context& context) : wireup_(*context.wireup), events_(::epoll_create1(EPOLL_CLOEXEC)) {
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
    Fd stream = wireup_.open_stream(peer, label(link_lane), deadline);
    const int on = 1;  // no delay for small messages (has no effect on a stream that is not TCP)
    ::setsockopt(stream.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    senders_.emplace_back(std::move(stream), peer, link_lane);
    watch(senders_.back().fd(), EPOLLOUT | EPOLLET, senders_.size() - 1, kSender);
    return senders_.back().link();
  }

  /// The stream may come later: progress() takes it when it comes.
  link::InLink connect_in(Rank peer, uint32_t link_lane, Deadline) override {
    receivers_.emplace_back(peer, link_lane);
    expected_.push_back(receivers_.size() - 1);
    return receivers_.back().link();
  }

  Status progress(bool& moved) override {
    moved = false;
    if (stopped_ || !failure_.ok()) return failure_;
    collect_events();
    failure_ = attach_arrivals();
    for (size_t i = 0; i < senders_.size() && failure_.ok(); ++i) failure_ = senders_[i].progress(moved);
    for (size_t i = 0; i < receivers_.size() && failure_.ok(); ++i) {
      if (receivers_[i].attached()) failure_ = receivers_[i].progress(moved);
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
    const bool busy = std::any_of(senders_.begin(), senders_.end(), [](const tcp::Sender& s) { return s.busy(); }) ||
                      std::any_of(receivers_.begin(), receivers_.end(), [](tcp::Receiver& r) { return r.busy(); });
    if (busy) return true;
    constexpr double kLookForStreams = 1e-3;  // seconds: a new stream raises no event
    if (!expected_.empty()) seconds = std::min(seconds, kLookForStreams);
    const double whole = std::floor(seconds);
    const timespec most{static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
    pollfd wait{events_.get(), POLLIN, 0};
    ::ppoll(&wait, 1, &most, nullptr);
    return true;
  }

 private:
  enum Kind : uint64_t { kSender, kReceiver };

  static std::string label(uint32_t link_lane) { return fmt::format("tcp:{}", link_lane); }

  void watch(int fd, uint32_t what, size_t index, Kind kind) {
    epoll_event event{};
    event.events = what;
    event.data.u64 = index << 1 | kind;
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw_error(Code::SystemError, "tcp: epoll_ctl: {}", std::strerror(errno));
    }
  }

  /// Wakes the links whose streams can continue. Events beyond the first 64 come with the next call.
  void collect_events() {
    std::array<epoll_event, 64> ready;
    const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<size_t>(i)];
      const size_t index = event.data.u64 >> 1;
      if ((event.data.u64 & 1) == kSender) {
        senders_[index].wake();
      } else {
        receivers_[index].wake((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
      }
    }
  }

  /// Gives streams that peers have opened to the receivers that wait for them.
  Status attach_arrivals() {
    for (size_t i = 0; i < expected_.size();) {
      tcp::Receiver& receiver = receivers_[expected_[i]];
      try {
        std::optional<Fd> stream = wireup_.take_stream(receiver.peer(), label(receiver.link_lane()));
        if (!stream) {
          ++i;
          continue;
        }
        receiver.attach(std::move(*stream));
        watch(receiver.fd(), EPOLLIN | EPOLLRDHUP | EPOLLET, expected_[i], kReceiver);
      } catch (const Error& error) {
        return Status::from(error);
      }
      expected_.erase(expected_.begin() + static_cast<ptrdiff_t>(i));
    }
    return {};
  }

  Wireup& wireup_;
  const Fd events_;
  std::deque<tcp::Sender> senders_;  // a deque: addresses are stable
  std::deque<tcp::Receiver> receivers_;
  std::vector<size_t> expected_;  // receivers whose streams have not come yet
  Status failure_;                // the first one; it is permanent
  bool stopped_ = false;
};

const TransportRegistration tcp_entry({.name = "tcp",
                                       .summary = "hosts, over TCP connections; one for each link",
                                       .preference = 50,
                                       .make = [](const Context& context) -> std::unique_ptr<Transport> {
                                         return std::make_unique<Tcp>(context);
                                       }});

}  // namespace
}  // namespace tutti::transports
