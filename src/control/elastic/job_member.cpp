#include "control/elastic/job_member.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
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
constexpr double kAnswerSeconds = 2;  // for the server to say for whom this process has waited in vain

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
    const auto slot = env().rank ? static_cast<Rank>(*env().rank) : kNoRank;
    the_member = new JobMember(slot, env().job_server, job_server_key(env().job, env().key));
    member_process = getpid();
  }
  return the_member;
}

JobMember::JobMember(Rank slot, std::string address, const Key& key)
    : control_(ControlThread::get()), slot_(slot), address_(std::move(address)), key_(key) {}

void JobMember::connect(Deadline deadline) {
  const ServerAddress address = parse(address_);
  const WaitLimit limit{deadline, nullptr};
  Fd fd;
  try {
    try {
      fd = dial_unix(address.unix_name, key_, limit);
    } catch (const NoDescriptor&) {
      throw;
    } catch (const Error&) {  // it runs on another host
      fd = dial(address.addresses, address.port, key_, limit);
    }
    JoinJob request;
    request.version = version();
    request.slot = slot_;
    request.wait_ms = milliseconds_of(deadline);
    request.me = control_.local_member();
    send_all(fd.get(), pack(request), limit);
    const std::string body = receive_frame(fd.get(), kMaxFirstFrame, limit);
    if (kind_of(body) == Kind::Refused) {
      const auto refused = unpack<Refused>(body);
      throw Error(refused.code, refused.text);
    }
    heartbeat_ms_ = unpack<JobWelcome>(body).heartbeat_ms;
  } catch (const Error& error) {
    const bool is_gone = error.code() == Code::PeerFailed || error.code() == Code::Timeout;
    throw_error(is_gone ? Code::Aborted : error.code(), "{}: the launcher of the job cannot be reached (at {}): {}",
                this_process(), address_, error.what());
  }
  const auto channel = std::make_shared<SocketChannel>(control_.loop(), std::move(fd), kMaxFirstFrame);
  const std::lock_guard lock(mutex_);
  channel_ = channel;
  control_.loop().post([this, channel] {
    last_beat_ = Deadline::Clock::now();
    channel->open([this](std::string_view body) { on_frame(body); }, [this](const std::string& why) { on_end(why); });
    beat();
  });
}

Place JobMember::next(Deadline deadline) {
  const std::lock_guard one(calls_mutex_);
  control_.check_not_forked();
  control_.check_addresses();
  bool is_known = false;
  {
    const std::lock_guard lock(mutex_);
    place_.reset();
    refusal_.reset();
    is_known = channel_ != nullptr;
    if (is_known) {
      control_.loop().post(
          [channel = channel_, ready = MemberReady{milliseconds_of(deadline)}] { channel->send(pack(ready)); });
    }
  }
  if (!is_known) connect(deadline);
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, Deadline::in(deadline.left() + kAnswerSeconds).at(), [&] { return place_ || refusal_; });
  if (place_) return *place_;
  const Error why = refusal_ ? *refusal_ : Error(Code::Timeout, "the launcher of the job does not answer");
  throw_error(why.code(), "{}{} waits to make a communicator: {}",
              slot_ == kNoRank ? "" : fmt::format("rank {}, ", slot_), this_process(), why.what());
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
      return make_id(unpack<MakeId>(body).generation);
    case Kind::Generation: {
      const auto generation = unpack<Generation>(body);
      if (generation.ranks < 1 || generation.rank < 0 || generation.rank >= generation.ranks) {
        throw_error(Code::ProtocolError, "rank {} of {}", generation.rank, generation.ranks);
      }
      const std::lock_guard lock(mutex_);
      place_ = Place{generation.number, generation.rank, generation.ranks, UniqueId::from_hex(generation.hex)};
      generation_ = generation.number;
      waiting_ = 0;  // as the server says next
      if (first_generation_ == 0) first_generation_ = generation.number;
      changed_.notify_all();
      return;
    }
    case Kind::Refused: {
      const auto refused = unpack<Refused>(body);
      const std::lock_guard lock(mutex_);
      refusal_ = Error(refused.code, refused.text);
      changed_.notify_all();
      return;
    }
    case Kind::JobNotice: {
      const auto notice = unpack<JobNotice>(body);
      const std::lock_guard lock(mutex_);
      waiting_ = notice.waiting;
      if (notice.ends_in_ms != JobNotice::kDoesNotEnd) ends_ = Deadline::in(notice.ends_in_ms / 1e3);
      return;
    }
    default:
      throw_error(Code::ProtocolError, "a message of kind {} from a job server", static_cast<int>(body[0]));
  }
}

void JobMember::on_end(const std::string& why) {
  const std::lock_guard lock(mutex_);
  channel_.reset();
  refusal_ = Error(Code::Aborted, "the connection to the launcher of the job has ended: " + why);
  changed_.notify_all();
}

void JobMember::make_id(uint32_t generation) {
  MadeId made;
  made.generation = generation;
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
void JobMember::beat() {
  const auto seconds_since = [](Deadline::Clock::time_point then) {
    return std::chrono::duration<double>(Deadline::Clock::now() - then).count();
  };
  const double limit = heartbeat_ms_ / 1e3;
  std::shared_ptr<SocketChannel> channel;
  {
    const std::lock_guard lock(mutex_);
    channel = channel_;
  }
  if (channel == nullptr || !channel->is_open()) return;
  if (seconds_since(last_beat_) > limit) channel->reset_silence();  // this process was stopped
  last_beat_ = Deadline::Clock::now();
  if (seconds_since(channel->heard()) > limit) {
    channel->close();
    return on_end(describe_silence(limit));
  }
  channel->ping(limit / kJobBeats);
  control_.loop().at(Deadline::in(limit / kJobBeats), [this] { beat(); });
}

}  // namespace tutti::control
