#include "control/trunk.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxChannels = 1 << 16;  // that a peer may have open
constexpr const char* kGone = "its connection closed";

}  // namespace

class Trunk::TrunkChannel final : public Channel, public std::enable_shared_from_this<TrunkChannel> {
 public:
  TrunkChannel(std::shared_ptr<Trunk> trunk, uint64_t number) : trunk_(std::move(trunk)), number_(number) {}
  ~TrunkChannel() override { TrunkChannel::close(); }
  TrunkChannel(const TrunkChannel&) = delete;
  TrunkChannel& operator=(const TrunkChannel&) = delete;

  void open(OnFrame on_frame, OnEnd on_end) override {
    set_callbacks(std::move(on_frame), std::move(on_end));
    if (trunk_->is_open()) return;
    trunk_->loop_.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end(kGone);
    });
  }
  void set_callbacks(OnFrame on_frame, OnEnd on_end) override {
    on_frame_ = std::move(on_frame);
    on_end_ = std::move(on_end);
  }
  using Channel::send;
  void send(Frame frame) override {
    if (!open_) return;
    std::string before = head(frame->size());
    trunk_->socket_->send(std::move(before), std::move(frame));
  }
  bool ping(double seconds) override { return trunk_->socket_->ping(seconds); }
  size_t queued() const override { return trunk_->socket_->queued(); }
  void close() override {
    if (!std::exchange(open_, false)) return;
    trunk_->socket_->Channel::send(pack(CloseChannel{number_}));
    trunk_->remove(number_);
  }
  bool is_open() const override { return open_; }
  // A trunk without channels is silent, and the silence before this one means nothing.
  Deadline::Clock::time_point heard() const override { return std::max(since_, trunk_->socket_->heard()); }
  void reset_silence() override { since_ = Deadline::Clock::now(); }
  Deadline::Clock::time_point last_arrival() const override { return trunk_->socket_->last_arrival(); }

  void deliver(std::string_view body) {
    try {
      if (on_frame_) on_frame_(body);
    } catch (const std::exception& error) {
      end(fmt::format("it sent an invalid message: {}", error.what()));
    }
  }
  void end(const std::string& why) {
    if (!open_) return;
    close();
    if (on_end_) on_end_(why);
  }

 private:
  /// What precedes the body of a frame of so many bytes.
  std::string head(size_t frame_bytes) const {
    std::string bytes = pack(Carried{number_});
    set_frame_length(bytes, bytes.size() + frame_bytes - kFrameLengthBytes);
    return bytes;
  }

  const std::shared_ptr<Trunk> trunk_;
  const uint64_t number_;
  bool open_ = true;
  Deadline::Clock::time_point since_ = Deadline::Clock::now();  // from when its silence counts
  OnFrame on_frame_;
  OnEnd on_end_;
};

Trunk::Trunk(EventLoop& loop, Fd fd, size_t max_frame, OnChannel on_channel)
    : loop_(loop),
      socket_(std::make_shared<SocketChannel>(loop, std::move(fd), max_frame)),
      on_channel_(std::move(on_channel)) {}
Trunk::~Trunk() = default;

void Trunk::open(std::function<void()> on_end) {
  on_end_ = std::move(on_end);
  socket_->open(
      [weak = weak_from_this()](std::string_view body) {
        if (const auto self = weak.lock()) self->on_frame(body);
      },
      [weak = weak_from_this()](const std::string& why) {
        if (const auto self = weak.lock()) self->on_end(why);
      });
}

std::shared_ptr<Trunk::TrunkChannel> Trunk::add(uint64_t number) {
  auto channel = std::make_shared<TrunkChannel>(shared_from_this(), number);
  channels_[number] = channel;
  in_use_ = channels_.size();
  return channel;
}

std::shared_ptr<Channel> Trunk::open_channel(const std::string& communicator, const std::string& first) {
  const uint64_t number = next_++;
  auto channel = add(number);
  --reserved_;
  socket_->Channel::send(pack(OpenChannel{number, communicator, first}));
  return channel;
}

void Trunk::remove(uint64_t number) {
  channels_.erase(number);
  in_use_ = channels_.size();
  if (unwanted_) close_when_unused();
}

void Trunk::close_when_unused() {
  unwanted_ = true;
  if (!channels_.empty() || reserved_ > 0) return;
  open_ = false;
  socket_->close();
}

bool Trunk::is_alive(double seconds) const {
  const bool heard = std::chrono::duration<double>(Deadline::Clock::now() - heard_.load()).count() <= seconds;
  return open_ && (heard || in_use_ > 0);
}

void Trunk::on_frame(std::string_view body) {
  const auto self = shared_from_this();
  note_heard();
  switch (kind_of(body)) {
    case Kind::Ping:
      return;
    case Kind::OpenChannel:
      return on_open_channel(unpack<OpenChannel>(body));
    case Kind::Carried: {
      const auto carried = unpack<Carried>(body.substr(0, Carried::kBodyBytes));
      const auto found = channels_.find(carried.channel);  // it may have been closed here meanwhile
      if (const auto channel = found == channels_.end() ? nullptr : found->second.lock())
        channel->deliver(body.substr(Carried::kBodyBytes));
      return;
    }
    case Kind::CloseChannel: {
      const auto found = channels_.find(unpack<CloseChannel>(body).channel);
      if (const auto channel = found == channels_.end() ? nullptr : found->second.lock()) channel->end(kGone);
      return;
    }
    default:
      throw_error(Code::ProtocolError, "a control message of kind {} on a trunk", static_cast<int>(body[0]));
  }
}

void Trunk::on_open_channel(const OpenChannel& request) {
  if (!on_channel_ || request.channel != next_) {
    throw_error(Code::ProtocolError, "it opens channel {} where channel {} is the next", request.channel, next_);
  }
  ++next_;
  const auto channel = add(request.channel);
  try {
    if (channels_.size() > kMaxChannels)
      throw_error(Code::SystemError, "{} channels of one process are open here, which is the maximum", kMaxChannels);
    on_channel_(channel, request);
  } catch (const Error& error) {
    log_debug("control thread: refused a channel: {}", error.what());
    channel->Channel::send(pack(Refused{error.code(), std::string(error.what()).substr(0, kMaxSmall)}));
    channel->close();
  }
}

void Trunk::on_end(const std::string& why) {
  const auto self = shared_from_this();
  open_ = false;
  const auto channels = channels_;  // a callback may close others
  for (const auto& [number, weak] : channels) {
    if (const auto channel = weak.lock()) channel->end(why);
  }
  if (on_end_) on_end_();
}

}  // namespace tutti::control
