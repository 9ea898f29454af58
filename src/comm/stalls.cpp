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
#include "link/wire.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kWaits = uint64_t{3} << 61;  // highest bits of a waits_key: neither a call, a transfer nor blocks
constexpr uint64_t kKinds = uint64_t{7} << 61;
constexpr double kPublishFrom = 0.3;  // seconds of standstill
constexpr double kAskFrom = 0.9;
constexpr double kAnswerWithin = 5;
constexpr double kStay = 10e-3;       // for answers; in it nothing else is done
constexpr size_t kMostQuestions = 8;  // at a time
constexpr double kMargin = 1;         // seconds between two findings that are the same, beyond the age of the evidence

using Clock = Deadline::Clock;

/// The key under which a board is asked for waits by rank `asker`.
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
    from.told += in.published;
  }
  std::vector<control::LinkCounts> all;
  for (auto& [link, of] : counts) {
    std::tie(of.peer, of.link_lane) = link;
    all.push_back(of);
  }
  return all;
}

}  // namespace

std::function<std::string(uint64_t)> board_service(std::shared_ptr<const Board> board,
                                                   const control::Endpoint& endpoint) {
  const uint64_t process = control::process_key(endpoint.process_id(endpoint.rank())), name = hash64(endpoint.name());
  return [board = std::move(board), rank = endpoint.rank(), process, name](uint64_t key) {
    if ((key & kKinds) != kWaits) return board->answer(key);
    const auto asker = static_cast<Rank>(key & 0x7fffffff);
    return control::WaitTable::of_this_process().answer(process, name, rank, asker, board->begun());
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

void Stalls::start_anew(uint64_t id) {
  stall_id_ = id;
  ticket_ = Hash().add(process_).add(communicator_).add(static_cast<uint64_t>(endpoint_.rank())).add(id).value() | 1;
  warned_ = false;
  suspicion_ = {};
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
                .on = {}};
  for (const exec::PeerAwait& on : stall.all) {
    const auto known =
        std::find_if(settled_.begin(), settled_.end(), [&](const auto& settled) { return settled.first == on; });
    entry.wait.on.push_back({.rank = on.peer,
                             .process = control::process_key(endpoint_.process_id(on.peer)),
                             .settled = known == settled_.end() ? 0 : known->second});
  }
  entry.thread = static_cast<pid_t>(syscall(SYS_gettid));
  entry.links = links_;
  entry.fail = endpoint_.failing();
  control::WaitTable::of_this_process().publish(this, std::move(entry));
  published_ = true;
}

/// Asks everybody who is waited for, unless a question is on its way.
void Stalls::ask(const exec::Stall& stall) {
  for (const exec::PeerAwait& on : stall.all) {
    const bool asked =
        std::any_of(questions_.begin(), questions_.end(), [&](const auto& q) { return q.peer == on.peer; });
    if (asked || questions_.size() == kMostQuestions) continue;
    const auto now = Clock::now();
    questions_.push_back(
        {on.peer, endpoint_.ask_board(on.peer, waits_key(endpoint_.rank()), Deadline::in(kAnswerWithin)), now});
  }
  // What is heard at once is fresh, and may be told to others now instead of at the next look.
  const Deadline deadline = Deadline::in(kStay);
  for (const Question& question : questions_) question.answer.wait_until(deadline.at());
}

/// Nothing is under way on the link that this rank waits on: what is sent has arrived, what is read has been
/// acknowledged, or the peer has not even come to the call. As of which state of the peer's; 0: not so, or not known.
/// Messages of other calls may well lie unread on other links: none of them lets this call go on.
uint64_t Stalls::settled(const exec::PeerAwait& on, const control::WaitsReply& reply, bool engines,
                         uint64_t number) const {
  const bool absent = number != 0 && reply.begun < number;
  if (on.await == exec::Await::Exchange && reply.ticket != 0) return absent ? reply.ticket : 0;
  if (reply.ticket != 0) {
    const auto mine = std::find_if(links_.begin(), links_.end(), [&](const control::LinkCounts& link) {
      return link.peer == on.peer && link.link_lane == on.link_lane;
    });
    if (mine == links_.end()) return 0;
    control::LinkLaneCounts theirs;  // zero where the peer has not made that link: nothing was sent on it
    for (const control::LinkLaneCounts& link : reply.links) {
      if (link.link_lane == on.link_lane) theirs = link;
    }
    const bool equal = on.await == exec::Await::Message ? mine->received == theirs.sent : mine->acked == theirs.told;
    return equal ? reply.ticket : 0;
  }
  // In no call: without engines all that it did is seen at once. With them its last acknowledgements may be under way,
  // and so may transfers, whose numbers it does not tell.
  if (reply.processes.empty() || (number != 0 && !absent)) return 0;
  if (engines && !(absent && on.await == exec::Await::Message)) return 0;
  return reply.processes.front().state();
}

void Stalls::hear(const exec::Stall& stall, uint64_t number) {
  std::erase_if(questions_, [&](Question& question) {
    if (question.answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    const auto bytes = question.answer.get();
    if (!bytes) return true;
    try {
      const auto reply = control::WaitTable::of_this_process().learn(process_, *bytes, seconds_since(question.asked));
      std::erase_if(settled_, [&](const auto& known) { return known.first.peer == question.peer; });
      for (const exec::PeerAwait& on : stall.all) {
        if (on.peer == question.peer) settled_.emplace_back(on, settled(on, reply, stall.engines, number));
      }
    } catch (const Error& error) {
      log_debug("rank {}: rank {} tells nonsense of its waits: {}", endpoint_.rank(), question.peer, error.what());
    }
    return true;
  });
}

void Stalls::warn(const exec::Stall& stall) const {
  log_warn("rank {} has waited for {:.1f} s: {}", endpoint_.rank(), stall.seconds, follow());
}

/// Certain is what is found twice, the second time by evidence all of which is younger than the first finding.
std::optional<Deadlock> Stalls::judge() {
  const control::WaitGraph graph = control::WaitTable::of_this_process().graph(process_);
  control::Stuck stuck = graph.stuck(ticket_);
  if (stuck.tickets.empty() || stuck.tickets != suspicion_.tickets) {
    suspicion_ = std::move(stuck);
    suspected_ = Clock::now();
    return std::nullopt;
  }
  if (seconds_since(suspected_) < stuck.age_ms / 1e3 + kMargin) return std::nullopt;
  return Deadlock{fmt::format("ranks wait for each other, and none of them can go on: {}", graph.follow(ticket_)),
                  stuck.tickets};
}

std::string Stalls::follow() const {
  return published_ ? control::WaitTable::of_this_process().graph(process_).follow(ticket_) : "";
}

std::optional<Deadlock> Stalls::look(const exec::Stall& stall, const std::string& call, uint64_t number) {
  if (stall.seconds < kPublishFrom || stall.id == 0) return std::nullopt;
  if (stall.id != stall_id_) start_anew(stall.id);
  links_ = count(stall.links);
  publish(stall, call);
  if (stall.seconds < kAskFrom) return std::nullopt;
  ask(stall);
  hear(stall, number);
  publish(stall, call);
  auto deadlock = judge();
  if (!deadlock && !warned_ && stall.seconds >= env().stall_warning) {
    warn(stall);
    warned_ = true;
  }
  return deadlock;
}

std::optional<Deadlock> Stalls::look(const std::vector<Rank>& missing, const exec::Links* links,
                                     const std::string& call, uint64_t number) {
  constexpr size_t kEnough = 16;  // any of those who are missing keeps all others
  if (stall_id_ == 0) since_ = Clock::now();
  exec::Stall stall;
  stall.id = stall_id_ == 0 ? exec::new_stall_id() : stall_id_;
  stall.seconds = seconds_since(since_) + kPublishFrom;  // before it is first said that they are missing
  stall.links = links;
  for (const Rank peer : missing) {
    if (stall.all.size() < kEnough) stall.all.push_back({.peer = peer, .await = exec::Await::Exchange});
  }
  return look(stall, call, number);
}

}  // namespace tutti::comm
