#include "comm/stalls.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/secret.hpp"
#include "control/status/status.hpp"
#include "link/wire.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kWaits = uint64_t{3} << 61;  // highest bits of a waits_key: neither a call, a transfer nor blocks
constexpr uint64_t kKinds = uint64_t{7} << 61;
constexpr double kPublishFrom = 0.3;  // seconds of a stall
constexpr double kAskFrom = 0.9;
constexpr double kAnswerWithin = 5;
constexpr double kStay = 10e-3;      // for replies; the rank does nothing else meanwhile
constexpr size_t kMaxQuestions = 8;  // at a time
constexpr double kMargin = 1;        // seconds between two equal findings, beyond the age of the oldest reply

using Clock = Deadline::Clock;

/// The key with which rank `asker` asks a board for waits.
uint64_t waits_key(Rank asker) { return kWaits | static_cast<uint32_t>(asker); }

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

std::vector<control::LinkCounts> count(const exec::Links* links) {
  std::map<std::pair<Rank, uint32_t>, control::LinkCounts> counts;
  if (links == nullptr) return {};
  for (const link::OutLink& out : links->outs()) {
    control::LinkCounts& to = counts[{out.peer, out.link_lane}];
    to.sent += out.next;
    to.acked += out.acked;
  }
  for (const link::InLink& in : links->ins()) {
    control::LinkCounts& from = counts[{in.peer, in.link_lane}];
    from.received += in.next;
    from.acknowledged += in.published;
  }
  std::vector<control::LinkCounts> all;
  for (auto& [link, of] : counts) {
    std::tie(of.peer, of.link_lane) = link;
    all.push_back(of);
  }
  return all;
}

}  // namespace

bool is_absent(const StalledCall& call, Rank peer, const control::Entered& entered) {
  if (call.number != 0) return entered.collectives < call.number;
  if (call.group == nullptr) return false;
  const auto first = std::find_if(call.group->begin(), call.group->end(), [&](const NumberedCall& transfer) {
    return transfer.call.spec.root == peer && !transfer.call.spec.sends;
  });
  return first != call.group->end() && entered.sends < first->number;
}

std::function<std::string(uint64_t)> board_service(std::shared_ptr<const CallBoard> board,
                                                   const control::Endpoint& endpoint) {
  const uint64_t process = control::process_key(endpoint.process_id(endpoint.rank())), name = hash64(endpoint.name());
  return
      [board = std::move(board), rank = endpoint.rank(), process, name, communicator = endpoint.name()](uint64_t key) {
        if (key == control::kStatusKey) return control::StatusBook::of_this_process().answer();
        if (key == control::kTimingKey) return control::StatusBook::of_this_process().timing_answer(communicator);
        if ((key & kKinds) != kWaits) return board->answer(key);
        const auto asker = static_cast<Rank>(key & 0x7fffffff);
        const auto entered = [&] {
          return control::Entered{.collectives = board->begun(),
                                  .sends = board->sends_to(asker).value_or(control::Entered::kUnknown)};
        };
        return control::WaitTable::of_this_process().answer(process, name, rank, asker, entered);
      };
}

Stalls::Stalls(control::Endpoint& endpoint, std::string title)
    : endpoint_(endpoint),
      title_(std::move(title)),
      communicator_(hash64(endpoint.name())),
      process_(control::process_key(endpoint.process_id(endpoint.rank()))) {}

void Stalls::withdraw() {
  control::WaitTable::of_this_process().withdraw(this);
  published_ = false;
  stall_id_ = 0;
  questions_.clear();
}

void Stalls::restart(uint64_t id) {
  stall_id_ = id;
  ticket_ = Hash().add(process_).add(communicator_).add(static_cast<uint64_t>(endpoint_.rank())).add(id).value() | 1;
  warned_ = false;
  candidate_ = {};
  settled_.clear();
}

void Stalls::publish(const exec::Stall& stall, const std::string& call) {
  control::WaitTable::Entry entry;
  entry.wait = {.ticket = ticket_,
                .communicator = communicator_,
                .rank = endpoint_.rank(),
                .title = title_.substr(0, control::kMaxName),
                .call = call.substr(0, control::kMaxName),
                .stuck_ms = static_cast<uint32_t>(std::min(stall.seconds * 1e3, 4e9)),
                .on = {},
                .on_device = static_cast<uint8_t>(on_device_ ? 1 : 0)};
  for (const exec::PeerAwait& on : stall.all) {
    const auto known =
        std::find_if(settled_.begin(), settled_.end(), [&](const auto& settled) { return settled.first == on; });
    entry.wait.on.push_back({.rank = on.peer,
                             .process = control::process_key(endpoint_.process_id(on.peer)),
                             .settled = known == settled_.end() ? 0 : known->second});
  }
  entry.threads = stall.threads;
  entry.threads.push_back(static_cast<pid_t>(syscall(SYS_gettid)));
  entry.links = links_;
  entry.fail = endpoint_.failing();
  control::WaitTable::of_this_process().publish(this, std::move(entry));
  published_ = true;
}

/// Asks every awaited peer, unless a question to it is pending.
void Stalls::ask(const exec::Stall& stall) {
  for (const exec::PeerAwait& on : stall.all) {
    const bool asked =
        std::any_of(questions_.begin(), questions_.end(), [&](const auto& q) { return q.peer == on.peer; });
    if (asked || questions_.size() == kMaxQuestions) continue;
    const auto now = Clock::now();
    questions_.push_back(
        {on.peer, endpoint_.ask_board(on.peer, waits_key(endpoint_.rank()), Deadline::in(kAnswerWithin)), now});
  }
  // A reply that arrives at once is fresh and can be passed on now, not only at the next check.
  const Deadline deadline = Deadline::in(kStay);
  for (const Question& question : questions_) question.answer.wait_until(deadline.at());
}

/// The peer's state as of which nothing is in flight on the link that this rank waits on: what was sent has arrived,
/// what was read has been acknowledged, or the peer has not entered the call. 0 if that is not so, or not known.
/// Messages of other calls may lie unread on other links: none of them lets this call continue.
uint64_t Stalls::settled(const exec::PeerAwait& on, const control::WaitsReply& reply, bool engines,
                         const StalledCall& call) const {
  const bool absent = is_absent(call, on.peer, reply.entered);
  if (on.await == exec::Await::Exchange && reply.ticket != 0) return absent ? reply.ticket : 0;
  if (on.await == exec::Await::FarSignal) return 0;                               // it may be on its way
  if (on.await == exec::Await::Signal && reply.ticket != 0) return reply.ticket;  // it arrives at once
  if (reply.ticket != 0) {
    const auto mine = std::find_if(links_.begin(), links_.end(), [&](const control::LinkCounts& link) {
      return link.peer == on.peer && link.link_lane == on.link_lane;
    });
    if (mine == links_.end()) return 0;
    control::LinkLaneCounts theirs;  // zero if the peer has not connected the link: it sent nothing on it
    for (const control::LinkLaneCounts& link : reply.links) {
      if (link.link_lane == on.link_lane) theirs = link;
    }
    const bool equal =
        on.await == exec::Await::Message ? mine->received == theirs.sent : mine->acked == theirs.acknowledged;
    return equal ? reply.ticket : 0;
  }
  // The peer is in no call. Without engines all that it did is visible at once. With engines its last acknowledgements
  // may be in flight, and so may what it has sent.
  if (reply.processes.empty() || (call.number != 0 && !absent)) return 0;
  if (reply.processes.front().free != 0) return 0;  // what it sends after this reply does not change its state()
  if (engines && !(absent && on.await == exec::Await::Message)) return 0;
  return reply.processes.front().state();
}

void Stalls::receive_replies(const exec::Stall& stall, const StalledCall& call) {
  std::erase_if(questions_, [&](Question& question) {
    if (question.answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    const auto bytes = question.answer.get();
    if (!bytes) return true;
    try {
      const auto reply = control::WaitTable::of_this_process().learn(process_, *bytes, seconds_since(question.asked));
      std::erase_if(settled_, [&](const auto& known) { return known.first.peer == question.peer; });
      for (const exec::PeerAwait& on : stall.all) {
        if (on.peer == question.peer) settled_.emplace_back(on, settled(on, reply, stall.engines, call));
      }
    } catch (const Error& error) {
      log_debug("rank {}: rank {} sent an invalid reply on its waits: {}", endpoint_.rank(), question.peer,
                error.what());
    }
    return true;
  });
}

void Stalls::warn(const exec::Stall& stall) const {
  log_warn("rank {} has waited for {:.1f} s: {}", endpoint_.rank(), stall.seconds, follow());
}

/// A deadlock is certain if it is found twice, the second time from replies that are all younger than the first
/// finding.
std::optional<Deadlock> Stalls::confirm_deadlock() {
  const control::WaitGraph graph = control::WaitTable::of_this_process().graph(process_);
  control::Stuck stuck = graph.stuck(ticket_);
  if (stuck.tickets.empty() || stuck.tickets != candidate_.tickets) {
    candidate_ = std::move(stuck);
    candidate_since_ = Clock::now();
    return std::nullopt;
  }
  if (seconds_since(candidate_since_) < stuck.age_ms / 1e3 + kMargin) return std::nullopt;
  return Deadlock{fmt::format("ranks wait for each other, and none of them can go on: {}", graph.follow(ticket_)),
                  stuck.tickets};
}

std::string Stalls::follow() const {
  return published_ ? control::WaitTable::of_this_process().graph(process_).follow(ticket_) : "";
}

std::string Stalls::follow_awaited() const {
  return published_ ? control::WaitTable::of_this_process().graph(process_).follow_awaited(ticket_) : "";
}

std::optional<Deadlock> Stalls::check(const exec::Stall& stall, const StalledCall& call) {
  if (stall.seconds < kPublishFrom || stall.id == 0) return std::nullopt;
  if (stall.id != stall_id_) restart(stall.id);
  links_ = count(stall.links);
  publish(stall, call.text);
  if (stall.seconds < kAskFrom) return std::nullopt;
  ask(stall);
  receive_replies(stall, call);
  publish(stall, call.text);
  auto deadlock = confirm_deadlock();
  if (!deadlock && !warned_ && stall.seconds >= env().stall_warning) {
    warn(stall);
    warned_ = true;
  }
  return deadlock;
}

std::optional<Deadlock> Stalls::check(const std::vector<Rank>& missing, const exec::Links* links,
                                      const StalledCall& call) {
  constexpr size_t kEnough = 16;  // any one of the missing ranks is enough
  if (stall_id_ == 0) since_ = Clock::now();
  exec::Stall stall;
  stall.id = stall_id_ == 0 ? exec::new_stall_id() : stall_id_;
  stall.seconds = seconds_since(since_) + kPublishFrom;  // the time before the server first reported them missing
  stall.links = links;
  for (const Rank peer : missing) {
    if (stall.all.size() < kEnough) stall.all.push_back({.peer = peer, .await = exec::Await::Exchange});
  }
  return check(stall, call);
}

}  // namespace tutti::comm
