// The control thread's side of a client: messages of the rendezvous server, and peers' questions.
#include "control/control_client.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/socket.hpp"
#include "control/describe.hpp"
#include "control/wait_table.hpp"

namespace tutti::control {
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
