// The control thread's side of a client: messages of the rendezvous server, and deaths of processes.
#include "control/control_client.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "control/describe.hpp"
#include "control/wait_table.hpp"

namespace tutti::control {
namespace {

constexpr double kGraceSeconds = 0.05;  // a death may be seen before the message that explains it
constexpr double kServerSeconds = 0.4;  // for the rendezvous server to confirm a death that this host saw

}  // namespace

void ControlClient::open(std::shared_ptr<Channel> channel) {
  if (closed_) return;
  channel_ = std::move(channel);
  channel_->open(
      [weak = weak_from_this()](std::string_view body) {
        if (const auto self = weak.lock()) self->on_frame(body);
      },
      [weak = weak_from_this()](const std::string& why) {
        if (const auto self = weak.lock()) self->on_end(why);
      });
  heartbeat_seconds_ = env().heartbeat;  // until the server says which limit it goes by
  last_beat_ = Deadline::Clock::now();
  heartbeat();
}

void ControlClient::on_frame(std::string_view body) {
  switch (kind_of(body)) {
    case Kind::Ping:
      return;
    case Kind::Welcome:
      return on_welcome(unpack<Welcome>(body));
    case Kind::Table:
      return on_table(unpack<Table>(body));
    case Kind::Refused: {
      const auto refused = unpack<Refused>(body);
      const std::lock_guard lock(mutex_);
      if (!refusal_) refusal_ = Failure(refused.code, refused.text);
      return changed_.notify_all();
    }
    case Kind::Gathered: {
      auto gathered = unpack<Gathered>(body);
      if (gathered.bytes.size() != static_cast<size_t>(ranks_))
        throw_error(Code::ProtocolError, "an incomplete exchange");
      const std::lock_guard lock(mutex_);
      gathered_ = std::move(gathered);
      return changed_.notify_all();
    }
    case Kind::Missing: {
      auto missing = unpack<Missing>(body);
      for (const Rank rank : missing.ranks) index(rank);  // throws if there is no such rank
      const std::lock_guard lock(mutex_);
      missing_ = std::move(missing);
      return changed_.notify_all();
    }
    case Kind::TransferCounts:
      return on_transfers(unpack<TransferCounts>(body));
    case Kind::MembershipUpdate:
      return on_membership_update(unpack<MembershipUpdate>(body));
    case Kind::Fail: {
      auto failure = unpack<Fail>(body);
      if (failure.code == Code::Revoked) {
        revocation_ = failure.text;
        revocation_is_relayed_ = true;
      }
      std::sort(failure.tickets.begin(), failure.tickets.end());
      if (set_failure(failure.code, failure.text) && !failure.tickets.empty()) {
        WaitTable::of_this_process().fail(failure.code, failure.text, failure.tickets);
      }
      if (channel_) channel_->send(pack(Fail{failure.code, ""}));
      return note_known_failure();
    }
    case Kind::BoardAsk:
      return answer_board(unpack<BoardAsk>(body));
    case Kind::BoardReply: {
      auto reply = unpack<BoardReply>(body);
      const auto question = questions_.find(reply.ticket);
      if (question == questions_.end() || question->second.peer != reply.peer) return;
      return resolve(reply.ticket, reply.known ? Answer(std::move(reply.entry)) : std::nullopt);
    }
    case Kind::Done:
      return on_done(unpack<Done>(body));
    default:
      throw_error(Code::ProtocolError, "a control message of kind {}", static_cast<int>(body[0]));
  }
}

/// A process that ends after a failure waits until the others know of it.
void ControlClient::note_known_failure() {
  {
    const std::lock_guard lock(mutex_);
    failure_is_known_ = true;
  }
  control_.notify();
}

void ControlClient::on_welcome(Welcome welcome) {
  if (welcome.heartbeat_ms == 0 || welcomed_) throw_error(Code::ProtocolError, "an invalid or second welcome");
  welcomed_ = true;
  heartbeat_seconds_ = welcome.heartbeat_ms / 1e3;
  server_ = std::move(welcome.server);
  watch_processes();
}

void ControlClient::on_table(Table table) {
  if (table.members.size() != static_cast<size_t>(ranks_) || !members_.empty() || !welcomed_) {
    throw_error(Code::ProtocolError, "a table of {} ranks in a communicator of {}", table.members.size(), ranks_);
  }
  {
    const std::lock_guard lock(mutex_);
    members_ = std::move(table.members);
    title_ = std::move(table.title);
    for (const Member& m : members_) process_ids_.push_back({m.host, m.process, m.started, m.nonce});
    joined_ = true;
  }
  changed_.notify_all();
  watch_processes();
}

void ControlClient::on_transfers(const TransferCounts& transfers) {
  const std::lock_guard lock(mutex_);
  for (const PeerTransfers& traffic : transfers.traffic) {
    if (traffic.peer < 0 || traffic.peer >= ranks_)
      throw_error(Code::ProtocolError, "transfers of rank {}", traffic.peer);
    Left& left = departed_[static_cast<size_t>(traffic.peer)];
    left.sent_to_us = traffic.sent;
    left.received_from_us = traffic.received;
  }
}

void ControlClient::on_membership_update(const MembershipUpdate& update) {
  {
    const std::lock_guard lock(mutex_);
    for (const MembershipUpdate::Departure& departure : update.departures) {
      if (departure.rank < 0 || departure.rank >= ranks_)
        throw_error(Code::ProtocolError, "a membership update names rank {}", departure.rank);
      const auto r = static_cast<size_t>(departure.rank);
      membership_[r] = departure.lost != 0 ? Membership::Lost : Membership::Left;
      departed_[r].calls = departure.calls;
      departed_[r].last = departure.last;
    }
    note_losses();
  }
  changed_.notify_all();
  for (const MembershipUpdate::Departure& departure : update.departures) {
    if (departure.lost != 0) resolve_all_to(departure.rank);  // it will not answer; a rank that left still does
  }
}

void ControlClient::on_done(Done done) {
  bool mismatch_is_late = false;
  std::map<std::string, std::function<void()>> then;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    then.swap(after_all_);
    if (!all_have_left()) then.clear();
    mismatch_ = std::move(done.mismatch);
    mismatch_is_late = leave_returned_ && !mismatch_.empty();
  }
  if (mismatch_is_late)
    control_.add_late_mismatch({rank_, ranks_, mismatch_});  // before close(): after it nobody waits for the mismatch
  for (const auto& [what, task] : then) {
    if (task) task();
  }
  close();
}

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

/// Other ranks of this host read and write the memory of the process that a rank names as its own. A request must
/// therefore come from that process: otherwise a member could name a foreign process and have its memory read and
/// written.
void ControlClient::check_asker(Rank from, int fd) const {
  const int64_t process = peer_process(fd);
  if (process == static_cast<int64_t>(member(from).process)) return;
  throw_error(Code::ProtocolError, "a request in the name of {} came from {}", describe_rank(from, member(from)),
              process == 0 ? "elsewhere" : fmt::format("process {}", process));
}

void ControlClient::answer_board(const BoardAsk& ask) {
  BoardReply reply;
  reply.peer = ask.peer;
  reply.ticket = ask.ticket;
  if (auto entry = board_(ask.call)) {
    reply.known = 1;
    reply.entry = entry->substr(0, kMaxEntry);
  }
  if (channel_) channel_->send(pack(reply));
}

void ControlClient::resolve(uint64_t ticket, Answer answer) {
  const auto found = questions_.find(ticket);
  if (found == questions_.end()) return;  // timed out
  control_.loop().cancel(found->second.timer);
  const auto then = std::move(found->second.answer);
  questions_.erase(found);
  then(std::move(answer));
}

void ControlClient::resolve_all_to(Rank peer) {
  std::vector<uint64_t> tickets;
  for (const auto& [ticket, question] : questions_) {
    if (question.peer == peer) tickets.push_back(ticket);
  }
  for (const uint64_t ticket : tickets) resolve(ticket, std::nullopt);
}

void ControlClient::resolve_all() {
  while (!questions_.empty()) resolve(questions_.begin()->first, std::nullopt);
}

/// No rank needs this client any more.
void ControlClient::close() {
  if (closed_) return;
  const auto self = shared_from_this();
  closed_ = true;
  EventLoop& loop = control_.loop();
  loop.cancel(heartbeat_timer_);
  loop.cancel(grace_timer_);
  for (ControlThread::Watch& watch : watches_) control_.unwatch_process(watch);
  if (channel_) channel_->close();
  channel_.reset();
  resolve_all();
  services_.close();
  std::shared_ptr<Trunks> trunks;
  std::shared_ptr<const void> counted;
  std::map<std::string, std::function<void()>> then;
  {
    const std::lock_guard lock(mutex_);
    trunks.swap(trunks_);
    counted.swap(counted_);
    then.swap(after_all_);
  }
  control_.remove_client(*this);
  changed_.notify_all();
}

}  // namespace tutti::control
