// What a client notices by itself, on the control thread: deaths of processes of this host, and the end or the silence
// of the rendezvous server.
#include <algorithm>

#include "control/control_client.hpp"
#include "control/describe.hpp"

namespace tutti::control {
namespace {

constexpr double kGraceSeconds = 0.05;  // a death may be seen before the message that explains it
constexpr double kServerSeconds = 0.4;  // for the rendezvous server to confirm a death that this host saw

}  // namespace

/// The connection to the rendezvous server has ended. That is expected after Done; otherwise the server's process died.
void ControlClient::on_end(const std::string& why) {
  const auto self = shared_from_this();
  bool leave_sent = false;
  {
    const std::lock_guard lock(mutex_);
    leave_sent = leave_sent_ || done_;
    if (leave_sent_ && !done_) {
      server_loss_ = fmt::format("{} held the rendezvous server of all ranks and is gone: {}", server_holder(), why);
    }
    if (!joined_ && !refusal_) {
      refusal_ = Failure(Code::PeerFailed,
                         fmt::format("{} is gone before all {} ranks were there: {}", server_holder(), ranks_, why));
    }
    changed_.notify_all();
  }
  channel_.reset();
  const bool all_know = revocation_.empty() || (leave_sent && revocation_is_relayed_);
  if (all_know) {
    note_known_failure();  // as far as it can be known
  } else {                 // once it is relayed, only those have not heard it whose server was killed in the middle
    pass_on_revocation(revocation_is_relayed_ ? kRumours : SIZE_MAX);
  }
  resolve_all();
  if (leave_sent || members_.empty()) return finish();
  if (remaining_ranks().empty()) return;
  // If that process died, its pidfd reports it in a moment, and names the rank.
  server_end_ = why;
  grace_timer_ = control_.loop().at(Deadline::in(kGraceSeconds), [weak = weak_from_this()] {
    if (const auto client = weak.lock()) client->server_lost();
  });
}

void ControlClient::server_lost() {
  if (closed_ || server_end_.empty()) return;
  const std::string why = std::exchange(server_end_, "");
  {
    const std::lock_guard lock(mutex_);
    server_loss_ = fmt::format("{} held the rendezvous server of all ranks and is gone: {}", server_holder(), why);
    for (size_t i = 0; i < members_.size(); ++i) dead_[i] = dead_[i] || same_process(members_[i], server_);
    note_losses();
  }
  set_failure(Code::PeerFailed,
              fmt::format("{} is gone; it held the rendezvous server of all ranks: {}", server_holder(), why));
}

std::string ControlClient::server_holder() const {
  constexpr const char* kMaker = "the process that made the unique id, usually rank 0's";
  const auto rank =
      std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return same_process(m, server_); });
  if (rank != members_.end()) return describe_rank(static_cast<Rank>(rank - members_.begin()), *rank);
  if (!holder_.empty()) return holder_;
  return welcomed_ ? fmt::format("{} ({}),", kMaker, describe_process(server_)) : fmt::format("{},", kMaker);
}

std::optional<std::pair<Rank, Deadline::Clock::time_point>> ControlClient::heard() const {
  if (!channel_ || same_process(server_, control_.local_member())) return std::nullopt;
  const auto rank =
      std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return same_process(m, server_); });
  if (rank == members_.end()) return std::nullopt;
  return std::pair(static_cast<Rank>(rank - members_.begin()), channel_->last_arrival());
}

/// Seconds since the rendezvous server was last heard. Needs a channel.
double ControlClient::silence() const {
  return std::chrono::duration<double>(Deadline::Clock::now() - channel_->heard()).count();
}

void ControlClient::heartbeat() {
  if (!channel_) return;
  const double beat = heartbeat_seconds_ / 4;
  const auto now = Deadline::Clock::now();
  // If this process itself was stopped, the silence is not the rendezvous server's fault.
  if (std::chrono::duration<double>(now - last_beat_).count() > 2 * beat) channel_->reset_silence();
  last_beat_ = now;
  const double silent = silence();
  if (silent > heartbeat_seconds_) {
    // If only the way from the server is broken, the others hear why this rank gives up.
    if (!members_.empty()) {
      channel_->send(pack(Fail{Code::PeerFailed, fmt::format("rank {} hears nothing more of {}: {}", rank_,
                                                             server_holder(), describe_silence(silent))}));
    }
    channel_->close();
    return on_end(describe_silence(silent));
  }
  channel_->ping(beat / 2);
  heartbeat_timer_ = control_.loop().at(Deadline::in(beat), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->heartbeat();
  });
}

/// Watches each other process of this host that is known to hold the rendezvous server or a rank, once.
void ControlClient::watch_processes() {
  const Member& local_member = control_.local_member();
  watched_.emplace(local_member.process, local_member.started);
  const auto watch = [&](const Member& member) {
    if (member.host != local_member.host || !watched_.emplace(member.process, member.started).second) return;
    watches_.push_back(control_.watch_process(member.process, member.started, [weak = weak_from_this(), member] {
      if (const auto self = weak.lock()) self->on_process_died(member);
    }));
  };
  watch(server_);
  for (const Member& member : members_) watch(member);
}

std::vector<Rank> ControlClient::still_here(const Member& member) const {
  std::vector<Rank> ranks;
  const std::lock_guard lock(mutex_);
  for (Rank r = 0; r < ranks_ && joined_; ++r) {
    const auto i = static_cast<size_t>(r);
    if (membership_[i] == Membership::Present && same_process(members_[i], member)) ranks.push_back(r);
  }
  return ranks;
}

/// The rendezvous server decides whether a rank that died had left before. If the server does not answer, this rank
/// relies on what its host saw.
void ControlClient::on_process_died(const Member& member) {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < members_.size(); ++i) dead_[i] = dead_[i] || same_process(members_[i], member);
    note_losses();
  }
  if (closed_) return;
  if (same_process(member, server_)) {
    grace_timer_ = control_.loop().at(Deadline::in(kGraceSeconds), [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self || !self->channel_) return;
      self->channel_->close();  // a child of that process may still hold the other end
      self->on_end("its process died");
    });
  }
  const std::vector<Rank> dead = still_here(member);
  if (dead.empty()) return;
  for (const Rank rank : dead) {
    if (channel_) channel_->send(pack(Report{rank}));
  }
  tell_death_in(channel_ ? kServerSeconds : kGraceSeconds, member);
}

/// The rendezvous server has not answered the report of a death. If nothing has been heard of the server for a while,
/// the process may have died because it gave up for that very reason: then the server's silence is the first cause, and
/// this rank waits until it is certain of it.
void ControlClient::tell_death_in(double seconds, const Member& member) {
  control_.loop().at(Deadline::in(seconds), [weak = weak_from_this(), member] {
    const auto self = weak.lock();
    if (!self || self->closed_) return;
    const std::vector<Rank> still = self->still_here(member);
    if (still.empty()) return;
    if (!self->server_end_.empty()) return self->tell_death_in(2 * kGraceSeconds, member);
    if (self->channel_ && self->silence() > self->heartbeat_seconds_ / 2)
      return self->tell_death_in(self->heartbeat_seconds_ / 4, member);
    self->set_failure(
        Code::PeerFailed,
        fmt::format("{} is gone: its process died before it left (was it killed, did it crash or exit early?)",
                    describe_rank(still.front(), member)));
  });
}

}  // namespace tutti::control
