#include "control/rendezvous_server.hpp"

#include <algorithm>
#include <utility>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/trunks.hpp"

namespace tutti::control {
namespace {

constexpr double kServerGraceSeconds = 0.05;  // for a leave notice that is on its way when its process is seen dead
constexpr double kClosingSeconds = 2;         // for the ranks to close their connections after Done
constexpr size_t kBusyChannel = 1 << 20;      // questions are dropped, not queued, if more than this is queued

bool before(const PeerTransfers& a, const PeerTransfers& b) { return a.peer < b.peer; }

/// What `leave_notice` reports of `peer`; zeros if nothing.
PeerTransfers traffic_with(const LeaveNotice& leave_notice, Rank peer) {
  const PeerTransfers wanted{peer, 0, 0};
  const auto found = std::lower_bound(leave_notice.traffic.begin(), leave_notice.traffic.end(), wanted, before);
  return found != leave_notice.traffic.end() && found->peer == peer ? *found : wanted;
}

/// "rank 0 sent rank 1 3 messages, rank 1 received 2 of them"; empty where the numbers are equal.
std::string compare_counts(Rank from, uint64_t sent, Rank to, uint64_t received) {
  if (sent == received) return "";
  return fmt::format("rank {} sent rank {} {} message{}, rank {} received {}{}", from, to, sent, sent == 1 ? "" : "s",
                     to, received, received < sent ? " of them" : "");
}

}  // namespace

RendezvousServer::RendezvousServer(ControlThread& control, std::string name, std::shared_ptr<Trunks> trunks,
                                   Places places)
    : control_(control),
      name_(std::move(name)),
      trunks_(std::move(trunks)),
      incomplete_(trunks_ == nullptr ? nullptr : trunks_->begin_server()),
      kept_places_(std::move(places.kept)),
      title_(places.ranks != 0 && places.title.empty() ? title_of_unnamed(name_, places.ranks) : places.title),
      size_(places.ranks) {}
RendezvousServer::~RendezvousServer() = default;

void RendezvousServer::on_frame(Rank from, std::string_view body) {
  const auto self = shared_from_this();
  ++received_;
  switch (kind_of(body)) {
    case Kind::Ping:
      return;
    case Kind::Exchange:
      return on_exchange(from, unpack<Exchange>(body));
    case Kind::Fail: {
      auto failure = unpack<Fail>(body);
      if (failure.code == Code::Revoked ? revoked_ : failed_) return failure_confirmed(from, failure.code);
      return fail(failure.code, failure.text, std::move(failure.tickets));
    }
    case Kind::Report:
      return on_report(from, unpack<Report>(body).rank);
    case Kind::LeaveNotice:
      return on_leave_notice(from, unpack<LeaveNotice>(body));
    case Kind::BoardAsk:
      return relay(from, unpack<BoardAsk>(body));
    case Kind::BoardReply:
      return relay(from, unpack<BoardReply>(body));
    default:
      throw_error(Code::ProtocolError, "a control message of kind {}", static_cast<int>(body[0]));
  }
}

void RendezvousServer::on_end(Rank from, const std::string& why) {
  const auto self = shared_from_this();
  if (joined_[static_cast<size_t>(from)].membership == RankState::Membership::Present) {
    mark_lost(from, fmt::format("{} before it left (was it killed, did it crash or exit early?)", why));
  }
  check_failure_is_known();
  if (state_ == State::Closing) check_closed();
}

/// A rank of the same host saw that process die. Its leave notice may still be on its way.
void RendezvousServer::on_report(Rank from, Rank rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= joined_.size())
    throw_error(Code::ProtocolError, "a report names rank {}, which does not exist", rank);
  const Member& witness = joined_[static_cast<size_t>(from)].member;
  if (witness.host != joined_[static_cast<size_t>(rank)].member.host)
    throw_error(Code::ProtocolError, "a report names rank {}, which runs on another host", rank);
  control_.loop().at(
      Deadline::in(kServerGraceSeconds), [weak = weak_from_this(), rank, who = describe_rank(from, witness)] {
        const auto self = weak.lock();
        if (self && self->joined_[static_cast<size_t>(rank)].membership == RankState::Membership::Present) {
          self->mark_lost(rank,
                          fmt::format("its process died before it left, as {} saw (was it killed, did it crash or exit "
                                      "early?)",
                                      who));
        }
      });
}

void RendezvousServer::on_leave_notice(Rank from, LeaveNotice leave_notice) {
  RankState& client = joined_[static_cast<size_t>(from)];
  if (client.membership != RankState::Membership::Present) return;
  record_transfers(from, leave_notice.traffic);
  client.membership = RankState::Membership::Left;
  client.leave_notice = std::move(leave_notice);
  if (contributions_ > 0 && !client.contribution) left_before_exchange(from);
  // Ranks of one process leave one after the other, and only the last one waits for the others: what can be known now
  // is told now.
  if (const std::string differs = compare_departed(from); !differs.empty()) fail(Code::Mismatch, differs);
  record_departure(from);
}

/// Checks and sorts the transfer counts of a leaving rank, and queues them for the peers concerned.
void RendezvousServer::record_transfers(Rank from, std::vector<PeerTransfers>& traffic) {
  std::sort(traffic.begin(), traffic.end(), before);
  for (size_t i = 0; i < traffic.size(); ++i) {
    const Rank peer = traffic[i].peer;
    if (peer < 0 || static_cast<size_t>(peer) >= joined_.size() || peer == from ||
        (i > 0 && traffic[i - 1].peer == peer))
      throw_error(Code::ProtocolError, "a leave notice counts messages with rank {}", peer);
  }
  for (const PeerTransfers& t : traffic) {
    RankState& peer = joined_[static_cast<size_t>(t.peer)];
    if (peer.membership == RankState::Membership::Present) peer.transfers.traffic.push_back({from, t.sent, t.received});
  }
}

/// Forwards a question or an answer to the rank that it names, and replaces that rank by the sender.
template <class M>
void RendezvousServer::relay(Rank from, M message) {
  const Rank to = message.peer;
  if (to < 0 || static_cast<size_t>(to) >= joined_.size())
    throw_error(Code::ProtocolError, "a message for rank {}", to);
  const RankState& target = joined_[static_cast<size_t>(to)];
  if (target.channel->is_open() && target.channel->queued() < kBusyChannel) {
    message.peer = from;
    send(*target.channel, pack(message));
  } else if constexpr (std::is_same_v<M, BoardAsk>) {
    BoardReply nothing;
    nothing.peer = to;
    nothing.ticket = message.ticket;
    send(*joined_[static_cast<size_t>(from)].channel, pack(nothing));
  }
}

void RendezvousServer::fail(Code code, const std::string& text, std::vector<uint64_t> tickets) {
  const bool revokes = code == Code::Revoked && !revoked_;
  if ((failed_ && !revokes) || state_ != State::Running) return;
  failed_ = true;
  if (revokes) {
    revoked_ = true;
    for (RankState& rank : joined_) rank.knows_failure = false;  // not yet of this one
  }
  send_all(pack(Fail{code, text.substr(0, kMaxSmall), std::move(tickets)}));
  check_failure_is_known();
}

/// A rank answers a failure with one, also where it has found another one at the same time.
void RendezvousServer::failure_confirmed(Rank from, Code code) {
  if (revoked_ && code != Code::Revoked) return;  // of the failure before the revocation
  joined_[static_cast<size_t>(from)].knows_failure = true;
  check_failure_is_known();
}

void RendezvousServer::check_failure_is_known() {
  failure_is_known_ =
      failed_ && std::all_of(joined_.begin(), joined_.end(), [](const RankState& rank) {
        return rank.knows_failure || rank.membership == RankState::Membership::Lost || !rank.channel->is_open();
      });
  if (failure_is_known_) control_.notify();
}

void RendezvousServer::mark_lost(Rank rank, const std::string& why) {
  RankState& client = joined_[static_cast<size_t>(rank)];
  client.membership = RankState::Membership::Lost;
  record_departure(rank);
  send_membership_update();  // who hears of the failure knows already which rank is lost
  fail(Code::PeerFailed, fmt::format("{} is gone: {}", describe_rank(rank, client.member), why));
  client.channel->close();
  check_failure_is_known();
}

void RendezvousServer::record_departure(Rank rank) {
  const RankState& client = joined_[static_cast<size_t>(rank)];
  if (!std::exchange(update_is_due_, true)) {  // one message reports all ranks that leave in this loop iteration
    control_.loop().post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->update_is_due_ = false;
      self->send_membership_update();
      self->check_all_departed();
    });
  }
  membership_update_.departures.push_back({rank, static_cast<uint8_t>(client.membership == RankState::Membership::Lost),
                                           client.leave_notice.calls, client.leave_notice.last});
}

void RendezvousServer::send_membership_update() {
  if (membership_update_.departures.empty()) return;
  for (RankState& client : joined_) {
    if (client.transfers.traffic.empty()) continue;
    send(*client.channel, pack(client.transfers));
    client.transfers.traffic.clear();
  }
  send_all(pack(membership_update_));
  membership_update_.departures.clear();
}

void RendezvousServer::send(Channel& channel, std::shared_ptr<const std::string> frame) {
  ++sent_;
  channel.send(std::move(frame));
}

void RendezvousServer::send_all(std::string frame) {
  const auto shared = std::make_shared<const std::string>(std::move(frame));
  for (const RankState& client : joined_) send(*client.channel, shared);
}

void RendezvousServer::heartbeat() {
  if (state_ != State::Running && (state_ != State::Gathering || applicants_.empty())) return;
  const auto now = Deadline::Clock::now();
  const double limit = env().heartbeat, beat = limit / 4;
  // If this process itself was stopped, the silence is not the ranks' fault.
  const bool stalled = std::chrono::duration<double>(now - last_beat_).count() > 2 * beat;
  last_beat_ = now;
  check_applicants(limit, stalled);
  if (state_ == State::Refusing) return;  // one of them was silent for too long
  for (size_t r = 0; r < joined_.size(); ++r) {
    RankState& client = joined_[r];
    if (!client.channel->is_open()) continue;
    if (stalled) client.channel->reset_silence();
    const double silent = std::chrono::duration<double>(now - client.channel->heard()).count();
    if (silent <= limit) continue;
    if (client.membership == RankState::Membership::Present) {
      mark_lost(static_cast<Rank>(r), describe_silence(silent));
    } else {
      client.channel->close();
    }
  }
  for (const RankState& client : joined_) ping(*client.channel);
  schedule_heartbeat();
}

void RendezvousServer::ping(Channel& channel) {
  if (channel.ping(env().heartbeat / 8)) ++sent_;
}

void RendezvousServer::schedule_heartbeat() {
  timer_ = control_.loop().at(Deadline::in(env().heartbeat / 4), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->heartbeat();
  });
}

void RendezvousServer::check_all_departed() {
  if (state_ != State::Running) return;
  for (const RankState& client : joined_) {
    if (client.membership == RankState::Membership::Present) return;
  }
  state_ = State::Closing;
  send_all(pack(Done{compare_calls().substr(0, kMaxSmall)}));
  control_.loop().cancel(timer_);
  timer_ = control_.loop().at(Deadline::in(kClosingSeconds), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
  check_closed();
}

/// How the calls of two ranks that have left differ; empty if they do not.
std::string RendezvousServer::compare_calls(Rank a, Rank b) const {
  const LeaveNotice &first = joined_[static_cast<size_t>(a)].leave_notice,
                    &theirs = joined_[static_cast<size_t>(b)].leave_notice;
  if (theirs.calls != first.calls) {
    const bool more = theirs.calls > first.calls;
    const std::string& last = more ? theirs.last : first.last;
    return fmt::format("rank {} left after {}, rank {} after {}{}", more ? a : b,
                       counted(more ? first.calls : theirs.calls, "call"), more ? b : a,
                       more ? theirs.calls : first.calls,
                       last.empty() ? "" : fmt::format(", the last of them {}", last));
  }
  if (theirs.digest != first.digest && theirs.last == first.last) {
    return fmt::format("of {}, one that rank {} made differs from that of rank {}: not the last one, {}",
                       counted(first.calls, "call"), b, a, first.last);
  }
  if (theirs.digest != first.digest) {
    return fmt::format("of {}, rank {} called {} last where rank {} called {}", counted(first.calls, "call"), b,
                       theirs.last, a, first.last);
  }
  return "";
}

/// The same of a rank that leaves and one of those that have left before; empty if the communicator has failed.
std::string RendezvousServer::compare_departed(Rank rank) const {
  if (failed_) return "";
  for (size_t r = 0; r < joined_.size(); ++r) {
    const auto before = static_cast<Rank>(r);
    if (before == rank || joined_[r].membership != RankState::Membership::Left) continue;
    return compare_calls(std::min(before, rank), std::max(before, rank));
  }
  return "";
}

/// The first rank whose calls differ from rank 0's. Empty if the communicator has failed: that error was reported.
std::string RendezvousServer::compare_calls() const {
  if (failed_) return "";
  for (size_t r = 1; r < joined_.size(); ++r) {
    if (std::string differs = compare_calls(0, static_cast<Rank>(r)); !differs.empty()) return differs;
  }
  return compare_traffic();
}

/// Sends that were never received, and receives without a send. Each pair is compared from both sides, since one of
/// them may not list it.
std::string RendezvousServer::compare_traffic() const {
  for (size_t r = 0; r < joined_.size(); ++r) {
    const auto rank = static_cast<Rank>(r);
    for (const PeerTransfers& ours : joined_[r].leave_notice.traffic) {
      const PeerTransfers theirs = traffic_with(joined_[static_cast<size_t>(ours.peer)].leave_notice, rank);
      if (auto text = compare_counts(rank, ours.sent, ours.peer, theirs.received); !text.empty()) return text;
      if (auto text = compare_counts(ours.peer, theirs.sent, rank, ours.received); !text.empty()) return text;
    }
  }
  return "";
}

void RendezvousServer::check_closed() {
  const bool open =
      std::any_of(joined_.begin(), joined_.end(), [](const RankState& s) { return s.channel->is_open(); });
  if (!open) close();
}

void RendezvousServer::close() {
  const auto self = shared_from_this();
  auto& loop = control_.loop();
  loop.cancel(timer_);
  end_exchange();
  for (const auto& a : std::vector(applicants_)) drop(a);
  for (const RankState& client : joined_) client.channel->close();
  busy_ = false;
  control_.remove_server(name_);
}

}  // namespace tutti::control
