#include "control/elastic/job_server.hpp"

#include <algorithm>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxGuests = 4096;
constexpr double kBetweenGenerations = 0.1;  // seconds, where communicators fail as soon as they are made
constexpr double kEndIsToldWithin = 1;       // seconds, by the launcher, of the end of a process whose connection ended
constexpr double kFormingAgainSeconds = 1;   // until a wait that ends while an id is made is looked at again

double elapsed_since(Deadline::Clock::time_point then) {
  return std::chrono::duration<double>(Deadline::Clock::now() - then).count();
}

}  // namespace

Key job_server_key(const std::string& job, const std::string& secret) {
  return derive_key(fmt::format("tutti job server {} {}", secret, job));
}

JobServer::JobServer(ControlThread& control, Key key, Rank slots, std::function<void(Rank, uint32_t)> lost)
    : control_(control), key_(key), slots_(slots), lost_(std::move(lost)), next_guest_(slots) {
  for (Rank slot = 0; slot < slots; ++slot) expected_.insert(slot);
}

std::shared_ptr<JobServer> JobServer::open(const std::string& job, const std::string& secret, Rank slots,
                                           std::function<void(Rank, uint32_t)> lost) {
  ControlThread& control = ControlThread::get();
  std::shared_ptr<JobServer> server(new JobServer(control, job_server_key(job, secret), slots, std::move(lost)));
  control.add_handler(server);
  control.loop().post([server] { server->heartbeat(); });
  return server;
}

std::string JobServer::address() const {
  const Member& here = control_.local_member();
  std::vector<std::string> addresses;
  for (const Address& address : here.addresses) addresses.push_back(to_string(address));
  return fmt::format("{}@{}@{}", here.unix_name, fmt::join(addresses, ","), here.port);
}

// ---- the launcher's words

void JobServer::restart(Rank slot, uint32_t incarnation) {
  control_.loop().post([self = shared_from_this(), slot, incarnation] {
    self->forget(slot);
    self->incarnations_[slot] = incarnation;
    self->expected_.insert(slot);
    self->tell_state();
  });
}

void JobServer::drop(Rank slot) {
  control_.loop().post([self = shared_from_this(), slot] {
    self->forget(slot);
    self->expected_.erase(slot);
    self->dropped_.insert(slot);
    self->gather();
    self->tell_state();
  });
}

void JobServer::close(const std::string& why) {
  control_.loop().post([self = shared_from_this(), why] {
    self->closed_ = why;
    self->gather();
  });
}

void JobServer::announce_end(double seconds) {
  control_.loop().post([self = shared_from_this(), seconds] {
    self->ends_ = Deadline::in(seconds);
    self->tell_state();
  });
}

// ---- processes

/// The slot of a process that comes. Throws the Error with which it is refused.
Rank JobServer::slot_for(const JoinJob& request) {
  const std::string who = describe_process(request.me);
  if (request.version != version()) {
    throw_error(Code::InvalidArgument, "{} runs Tutti {}, the launcher of the job {}: use one version", who,
                request.version, version());
  }
  if (request.slot == kNoRank) {
    for (const auto& [slot, process] : processes_) {
      if (is_guest(slot) && same_process(process.me, request.me)) return slot;  // its connection was lost
    }
    if (processes_.size() >= static_cast<size_t>(slots_) + kMaxGuests) {
      throw_error(Code::InvalidUsage, "{} more processes than the launcher has started want to be in the job",
                  kMaxGuests);
    }
    return next_guest_++;
  }
  if (request.slot < 0 || request.slot >= slots_) {
    throw_error(Code::InvalidArgument, "{} calls itself rank {}; the launcher has started {}", who, request.slot,
                slots_);
  }
  if (dropped_.count(request.slot) != 0 || request.incarnation != incarnations_[request.slot]) {
    throw_error(Code::InvalidArgument, "{} comes as rank {}, which the launcher has given up", who, request.slot);
  }
  const auto known = processes_.find(request.slot);
  if (known != processes_.end() && !same_process(known->second.me, request.me)) {
    throw_error(Code::InvalidArgument, "rank {} is {}; {} claims its place too", request.slot,
                describe_process(known->second.me), who);
  }
  return request.slot;
}

void JobServer::on_connection(Fd& fd, std::string_view first) {
  auto request = unpack<JoinJob>(first);
  const Rank slot = slot_for(request);
  const auto known = processes_.find(slot);
  const uint32_t generation = known == processes_.end() ? 0 : known->second.generation;
  if (known != processes_.end()) {  // the same process again
    control_.loop().cancel(known->second.timer);
    known->second.channel->close();
    if (is_forming(slot)) forming_.clear();  // what was sent to it may be lost: the id is asked for again
  }
  Process process{.me = std::move(request.me),
                  .channel = std::make_shared<SocketChannel>(control_.loop(), std::move(fd), kMaxFirstFrame),
                  .generation = generation};
  process.channel->open(
      [weak = weak_from_this(), slot](std::string_view body) {
        if (const auto self = weak.lock()) self->on_frame(slot, body);
      },
      [weak = weak_from_this(), slot, channel = std::weak_ptr(process.channel)](const std::string& why) {
        const auto self = weak.lock();
        if (!self) return;
        self->control_.loop().post([weak, slot, channel, why] {  // not from within a send to all
          if (const auto later = weak.lock()) later->on_end(slot, channel.lock(), why);
        });
      });
  process.channel->send(pack(JobWelcome{static_cast<uint32_t>(env().heartbeat * 1e3)}));
  process.channel->send(pack(state()));
  processes_.insert_or_assign(slot, std::move(process));
  if (!is_guest(slot)) expected_.insert(slot);
}

void JobServer::on_frame(Rank slot, std::string_view body) {
  switch (kind_of(body)) {
    case Kind::Ping:
      return;
    case Kind::MemberReady:
      return become_ready(slot, unpack<MemberReady>(body));
    case Kind::MadeId:
      return on_id(slot, unpack<MadeId>(body));
    default:
      throw_error(Code::ProtocolError, "a message of kind {} to a job server", static_cast<int>(body[0]));
  }
}

/// The launcher hears of the end of a process by itself. One that lives on without its connection takes part no longer.
void JobServer::on_end(Rank slot, const std::shared_ptr<SocketChannel>& channel, const std::string& why) {
  const auto found = processes_.find(slot);
  if (found == processes_.end() || found->second.channel != channel) return;  // it has come back meanwhile
  log_debug("job server: the connection of rank {} has ended: {}", slot, why);
  forget(slot);
  tell_state();
  control_.loop().at(Deadline::in(is_guest(slot) ? 0 : kEndIsToldWithin),
                     [weak = weak_from_this(), slot, incarnation = incarnations_[slot]] {
                       const auto self = weak.lock();
                       if (!self || self->processes_.count(slot) != 0) return;
                       if (self->incarnations_[slot] != incarnation) return;
                       self->expected_.erase(slot);
                       self->gather();
                     });
}

bool JobServer::is_forming(Rank slot) const {
  return std::find(forming_.begin(), forming_.end(), slot) != forming_.end();
}

void JobServer::forget(Rank slot) {
  const auto found = processes_.find(slot);
  if (found == processes_.end()) return;
  if (is_forming(slot)) forming_.clear();
  if (generation_ != 0 && found->second.generation == generation_) broken_ = generation_;
  control_.loop().cancel(found->second.timer);
  found->second.channel->close();
  processes_.erase(found);
}

void JobServer::become_ready(Rank slot, const MemberReady& ready) {
  Process& process = processes_.at(slot);
  process.ready = true;
  process.request = ready.request;
  control_.loop().cancel(process.timer);
  process.timer = control_.loop().at(Deadline::in(ready.wait_ms / 1e3), [weak = weak_from_this(), slot] {
    if (const auto self = weak.lock()) self->waited_too_long(slot);
  });
  gather();
  tell_state();
}

std::vector<Rank> JobServer::missing() const {
  std::vector<Rank> slots;
  for (const Rank slot : expected_) {
    const auto found = processes_.find(slot);
    if (found == processes_.end() || !found->second.ready) slots.push_back(slot);
  }
  return slots;
}

void JobServer::refuse(Process& process, Code code, const std::string& text) {
  process.ready = false;
  control_.loop().cancel(process.timer);
  process.channel->send(pack(NotAdmitted{process.request, code, text.substr(0, kMaxSmall)}));
}

void JobServer::waited_too_long(Rank slot) {
  const auto found = processes_.find(slot);
  if (found == processes_.end() || !found->second.ready) return;
  if (is_forming(slot)) {
    found->second.timer = control_.loop().at(Deadline::in(kFormingAgainSeconds), [weak = weak_from_this(), slot] {
      if (const auto self = weak.lock()) self->waited_too_long(slot);
    });
    return;
  }
  std::vector<Rank> late = missing();
  late.erase(std::remove(late.begin(), late.end(), slot), late.end());
  refuse(found->second, Code::Timeout,
         fmt::format("it waited for {}, which {} not come to make a communicator anew", list_ranks(late),
                     late.size() == 1 ? "has" : "have"));
  tell_state();
}

/// Begins a generation, if all are there.
void JobServer::gather() {
  if (!closed_.empty()) {
    for (auto& [slot, process] : processes_) {
      if (process.ready) refuse(process, Code::Aborted, closed_);
    }
    return;
  }
  if (!forming_.empty() || expected_.empty() || !missing().empty()) return;
  if (!pause_.passed()) {
    if (std::exchange(gathers_later_, true)) return;
    control_.loop().at(pause_, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->gathers_later_ = false;
      self->gather();
    });
    return;
  }
  pause_ = Deadline::in(kBetweenGenerations);
  for (const auto& [slot, process] : processes_) {
    if (process.ready) forming_.push_back(slot);
  }
  processes_.at(forming_.front()).channel->send(pack(MakeId{++attempt_}));
}

void JobServer::on_id(Rank slot, const MadeId& made) {
  if (!made.hex.empty()) UniqueId::from_hex(made.hex);  // throws, which ends the connection
  if (made.attempt != attempt_ || forming_.empty() || slot != forming_.front()) return;
  const std::vector<Rank> members = std::exchange(forming_, {});
  if (made.hex.empty()) {
    for (const Rank member : members) refuse(processes_.at(member), made.code, made.text);
    return;
  }
  Generation generation{0, ++generation_, 0, static_cast<Rank>(members.size()), made.hex};
  for (const Rank member : members) {
    Process& process = processes_.at(member);
    process.ready = false;
    process.generation = generation_;
    control_.loop().cancel(process.timer);
    expected_.insert(member);
    generation.request = process.request;
    process.channel->send(pack(generation));
    ++generation.rank;
  }
  log_debug("job server: generation {} of {} ranks", generation_, generation.rank);
  tell_state();
}

JobNotice JobServer::state() const {
  JobNotice notice;
  notice.broken = broken_;
  for (const auto& [slot, process] : processes_) notice.waiting += process.ready ? 1 : 0;
  if (ends_) notice.ends_in_ms = static_cast<uint32_t>(std::clamp(ends_->left() * 1e3, 0.0, 4e9));
  return notice;
}

/// To those that do not wait, where something has changed.
void JobServer::tell_state() {
  const JobNotice notice = state();
  if (!ends_ && notice.waiting == last_notice_.waiting && notice.broken == last_notice_.broken) return;
  last_notice_ = notice;
  const auto frame = std::make_shared<const std::string>(pack(notice));
  for (const auto& [slot, process] : processes_) {
    if (!process.ready || ends_) process.channel->send(frame);
  }
}

/// Pings all. A process that is silent is lost: its host is, or it is stopped.
void JobServer::heartbeat() {
  const double beat = env().heartbeat / kJobBeats;
  const bool stalled = elapsed_since(last_beat_) > 2 * beat;  // this process was stopped, and heard nobody
  last_beat_ = Deadline::Clock::now();
  std::vector<Rank> silent;
  for (const auto& [slot, process] : processes_) {
    if (stalled) process.channel->reset_silence();
    process.channel->ping(beat);
    if (elapsed_since(process.channel->heard()) > env().heartbeat) silent.push_back(slot);
  }
  for (const Rank slot : silent) {
    log_warn("rank {} of the job is silent for {:.1f} s: it counts as lost", slot, env().heartbeat);
    forget(slot);
    if (is_guest(slot)) {
      expected_.erase(slot);
    } else {
      lost_(slot, incarnations_[slot]);
    }
  }
  if (!silent.empty()) {
    gather();
    tell_state();
  }
  control_.loop().at(Deadline::in(beat), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->heartbeat();
  });
}

}  // namespace tutti::control
