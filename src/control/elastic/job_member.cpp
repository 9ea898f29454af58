#include "control/elastic/job_member.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <thread>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "base/version.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/elastic/job_server.hpp"
#include "control/host.hpp"

namespace tutti::control {
namespace {

constexpr double kHereSeconds = 1;  // for the launcher to accept a connection on this host
constexpr int kInterfacePauseMs = 100;
constexpr double kReconnectBeats = 6;  // heartbeats in which a launcher that is away may come back
constexpr double kAnswerSeconds = 2;   // for the server to say for whom this process has waited in vain

/// TUTTI_JOB_SERVER: "NAME@ADDRESS,ADDRESS@PORT".
struct ServerAddress {
  std::string unix_name;
  std::vector<Address> addresses;
  uint16_t port = 0;
};

ServerAddress parse(const std::string& text) {
  const size_t first = text.find('@'), last = text.rfind('@');
  ServerAddress address;
  if (first != std::string::npos && first < last) {
    address.unix_name = text.substr(0, first);
    const std::string_view port = std::string_view(text).substr(last + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (error == std::errc() && end == port.data() + port.size() && address.port != 0) {
      address.addresses = resolve(text.substr(first + 1, last - first - 1));
      return address;
    }
  }
  throw_error(Code::InvalidArgument,
              "environment variable TUTTI_JOB_SERVER=\"{}\" is no address: tutti run --restarts sets it", text);
}

uint32_t milliseconds_of(Deadline deadline) {
  return static_cast<uint32_t>(std::clamp(deadline.left() * 1e3, 0.0, 4e9));
}

}  // namespace

namespace {

/// A process that starts while its host's interface is down would offer only its loopback address as long as it lives:
/// waits until there is another one, or the deadline. Not where the launcher is on this host.
void await_interface(const ServerAddress& server, Deadline deadline) {
  try {
    connect_unix(server.unix_name, {Deadline::in(kHereSeconds), nullptr});
    return;
  } catch (const Error&) {  // it is on another host
  }
  const auto has_only_loopback = [] {
    const auto addresses = local_addresses();
    return std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return a.is_loopback(); });
  };
  for (bool told = false; has_only_loopback() && !deadline.passed(); told = true) {
    if (!told) log_warn("this host has only a loopback address: waiting for an interface that is up");
    poll(nullptr, 0, deadline.poll_ms(kInterfacePauseMs));
  }
}

std::mutex member_mutex;
JobMember* the_member = nullptr;  // never destroyed: the control thread uses it until the process ends
pid_t member_process = 0;

}  // namespace

JobMember* JobMember::existing() {
  const std::lock_guard lock(member_mutex);
  return member_process == getpid() ? the_member : nullptr;
}

JobMember* JobMember::of_this_process(Deadline deadline) {
  if (env().job_server.empty()) return nullptr;
  if (auto* const member = existing()) return member;
  await_interface(parse(env().job_server), deadline);
  const std::lock_guard lock(member_mutex);
  if (the_member == nullptr || member_process != getpid()) {
    the_member = new JobMember({.slot = env().rank ? static_cast<Rank>(*env().rank) : kNoRank,
                                .incarnation = static_cast<uint32_t>(env().restart),
                                .address = env().job_server,
                                .key = job_server_key(env().job, env().key)});
    member_process = getpid();
  }
  return the_member;
}

JobMember::JobMember(Identity identity) : control_(ControlThread::get()), identity_(std::move(identity)) {}

/// A connection that the server has admitted.
Fd JobMember::dial_server(Deadline deadline) const {
  const ServerAddress address = parse(identity_.address);
  const WaitLimit limit{deadline, nullptr};
  Fd fd;
  try {
    fd = dial_unix(address.unix_name, identity_.key, limit);
  } catch (const NoDescriptor&) {
    throw;
  } catch (const Error&) {  // it runs on another host
    fd = dial(address.addresses, address.port, identity_.key, limit);
  }
  JoinJob request;
  request.version = version();
  request.slot = identity_.slot;
  request.incarnation = identity_.incarnation;
  request.me = control_.local_member();
  send_all(fd.get(), pack(request), limit);
  return fd;
}

void JobMember::connect(Deadline deadline) {
  Fd fd;
  try {
    fd = dial_server(deadline);
    const std::string body = receive_frame(fd.get(), kMaxFirstFrame, {deadline, nullptr});
    if (kind_of(body) == Kind::Refused) {
      const auto refused = unpack<Refused>(body);
      throw Error(refused.code, refused.text);
    }
    const uint32_t heartbeat = unpack<JobWelcome>(body).heartbeat_ms;
    if (heartbeat == 0) throw_error(Code::ProtocolError, "the launcher's heartbeat is 0");
    heartbeat_ms_ = heartbeat;
  } catch (const Error& error) {
    const bool is_gone = error.code() == Code::PeerFailed || error.code() == Code::Timeout;
    throw_error(is_gone ? Code::Aborted : error.code(), "{}: the launcher of the job cannot be reached (at {}): {}",
                this_process(), identity_.address, error.what());
  }
  const auto channel = std::make_shared<SocketChannel>(control_.loop(), std::move(fd), kMaxFirstFrame);
  const std::lock_guard lock(mutex_);
  channel_ = channel;
  control_.loop().post([this, channel] {
    channel->open([this](std::string_view body) { on_frame(body); },
                  [this, weak = std::weak_ptr(channel)](const std::string& why) { on_end(weak.lock(), why); });
    beat(channel);
  });
}

Place JobMember::next(Deadline deadline) {
  const std::lock_guard one(calls_mutex_);
  control_.check_not_forked();
  control_.check_settings();
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.at(), [&] { return !reconnecting_; });
  if (channel_ == nullptr) {
    lock.unlock();
    connect(deadline);
    lock.lock();
  }
  place_.reset();
  if (channel_ != nullptr) {  // else it has ended again, and refusal_ says why
    refusal_.reset();
    const MemberReady ready{++request_, milliseconds_of(deadline)};
    control_.loop().post([channel = channel_, ready] { channel->send(pack(ready)); });
  }
  changed_.wait_until(lock, Deadline::in(deadline.left() + kAnswerSeconds).at(), [&] { return place_ || refusal_; });
  if (place_) return *place_;
  const Error why = refusal_ ? *refusal_ : Error(Code::Timeout, "the launcher of the job does not answer");
  throw_error(why.code(), "{}{} waits to make a communicator: {}",
              identity_.slot == kNoRank ? "" : fmt::format("rank {}, ", identity_.slot), this_process(), why.what());
}

JobState JobMember::state() const {
  const std::lock_guard lock(mutex_);
  JobState state;
  state.generation = generation_;
  state.newcomer = first_generation_ > 1;
  state.waiting = waiting_;
  if (ends_) state.ends_in = std::max(0.0, ends_->left());
  return state;
}

// ---- control thread

void JobMember::on_frame(std::string_view body) {
  switch (kind_of(body)) {
    case Kind::Ping:
      return;
    case Kind::MakeId:
      return make_id(unpack<MakeId>(body).attempt);
    case Kind::Generation: {
      const auto generation = unpack<Generation>(body);
      if (generation.ranks < 1 || generation.rank < 0 || generation.rank >= generation.ranks) {
        throw_error(Code::ProtocolError, "rank {} of {}", generation.rank, generation.ranks);
      }
      const std::lock_guard lock(mutex_);
      if (generation.request != request_) return;  // next() waits for it no longer
      place_ = Place{generation.number, generation.rank, generation.ranks, UniqueId::from_hex(generation.hex)};
      generation_ = generation.number;
      waiting_ = 0;  // as the server says next
      broken_.store(0, std::memory_order_release);
      if (first_generation_ == 0) first_generation_ = generation.number;
      changed_.notify_all();
      return;
    }
    case Kind::NotAdmitted: {
      const auto refused = unpack<NotAdmitted>(body);
      const std::lock_guard lock(mutex_);
      if (refused.request != request_) return;
      refusal_ = Error(refused.code, refused.text);
      changed_.notify_all();
      return;
    }
    case Kind::JobNotice: {
      const auto notice = unpack<JobNotice>(body);
      const std::lock_guard lock(mutex_);
      waiting_ = notice.waiting;
      if (generation_ != 0 && notice.broken == generation_) broken_.store(1, std::memory_order_release);
      if (notice.ends_in_ms != JobNotice::kDoesNotEnd) ends_ = Deadline::in(notice.ends_in_ms / 1e3);
      return;
    }
    default:
      throw_error(Code::ProtocolError, "a message of kind {} from a job server", static_cast<int>(body[0]));
  }
}

/// The launcher has ended, or was stopped or away for a while: a thread tries to reach it again.
void JobMember::on_end(const std::shared_ptr<SocketChannel>& channel, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (channel_ != channel || channel == nullptr) return;
  channel_.reset();
  refusal_ = Error(Code::Aborted, "the connection to the launcher of the job has ended: " + why);
  changed_.notify_all();
  reconnecting_ = true;
  try {
    std::thread([this] { reconnect(); }).detach();
  } catch (const std::system_error&) {  // next() connects
    reconnecting_ = false;
  }
}

/// On a thread of its own.
void JobMember::reconnect() {
  try {
    connect(Deadline::in(kReconnectBeats * heartbeat_ms_ / 1e3));
  } catch (const Error& error) {
    log_debug("the launcher of the job is not reached again: {}", error.what());
  }
  const std::lock_guard lock(mutex_);
  reconnecting_ = false;
  changed_.notify_all();
}

void JobMember::make_id(uint32_t attempt) {
  MadeId made;
  made.attempt = attempt;
  try {
    if (made_) release_unique_id(*made_);  // of a generation that did not come about
    made_ = create_unique_id();
    made.hex = made_->hex();
  } catch (const Error& error) {
    made.code = error.code();
    made.text = fmt::format("{}: {}", this_process(), error.what());
  }
  std::shared_ptr<SocketChannel> channel;
  {
    const std::lock_guard lock(mutex_);
    channel = channel_;
  }
  if (channel != nullptr) channel->send(pack(made));
}

/// Tells the server that this process is alive, and notices where the server is silent.
void JobMember::beat(const std::shared_ptr<SocketChannel>& channel) {
  if (!channel->is_open()) return;
  const double limit = heartbeat_ms_ / 1e3;
  const double silent = std::chrono::duration<double>(Deadline::Clock::now() - channel->heard()).count();
  if (silent > limit) {
    channel->close();
    return on_end(channel, describe_silence(limit));
  }
  channel->ping(limit / kJobBeats);
  const auto next = Deadline::in(limit / kJobBeats);
  control_.loop().at(next, [this, channel, next] {
    // This process was stopped, and has heard nothing.
    if (std::chrono::duration<double>(Deadline::Clock::now() - next.at()).count() > heartbeat_ms_ / 1e3 / kJobBeats) {
      channel->reset_silence();
    }
    beat(channel);
  });
}

}  // namespace tutti::control
