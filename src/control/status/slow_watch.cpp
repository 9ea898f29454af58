#include "control/status/slow_watch.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/status/status.hpp"

namespace tutti::control {
namespace {

constexpr double kLookEach = 1;         // seconds between two looks
constexpr size_t kMaxTiming = 8 << 20;  // bytes of a process's ranks
constexpr Rank kRanksASecond = 512;     // that are asked
constexpr int kOutdated = 16;           // seconds without calls after which what was known of them is worth nothing

std::string time_text(double seconds) {
  return seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.0f} us", seconds * 1e6);
}

std::string rate_text(double rate) {
  return rate >= 1e9 ? fmt::format("{:.2f} GB/s", rate / 1e9) : fmt::format("{:.1f} MB/s", rate / 1e6);
}

std::string words(const SlowRank& slow, const ControlClient& client) {
  return fmt::format(
      "{} is slow: in the last {:.0f} s it took {} more than the others before each collective; waiting for it costs "
      "them {:.0f} % of their time",
      describe_rank(slow.rank, client.member(slow.rank)), slow.seconds, time_text(slow.late_by), slow.lost * 100);
}

std::string words(const SlowLink& slow, const ControlClient& client) {
  return fmt::format(
      "the {} link from rank {} on {} to rank {} on {} is slow: in the last {:.0f} s it carried {} while it was busy, "
      "for {:.0f} % of the time; the median of the other links is {}",
      slow.transport, slow.from, client.member(slow.from).host_name, slow.to, client.member(slow.to).host_name,
      slow.seconds, rate_text(slow.rate), slow.busy * 100, rate_text(slow.others));
}

std::vector<std::string> hosts_of(const ControlClient& client) {
  std::vector<std::string> hosts;
  for (Rank rank = 0; rank < client.ranks(); ++rank) hosts.push_back(client.member(rank).host);
  return hosts;
}

/// By rank; null: unknown. `others`: each tells of ranks of its own.
std::vector<const RankTiming*> by_rank(const ControlClient& client, const ProcessTiming& mine,
                                       const std::vector<std::pair<const Survey::Asked*, ProcessTiming>>& others) {
  std::vector<const RankTiming*> ranks(static_cast<size_t>(client.ranks()));
  for (const RankTiming& rank : mine.ranks) ranks[static_cast<size_t>(rank.rank)] = &rank;
  for (const auto& [asked, timing] : others) {
    for (const RankTiming& rank : timing.ranks) {
      const auto& known = asked->process.known;
      const bool own = std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.rank == rank.rank; });
      if (own) ranks[static_cast<size_t>(rank.rank)] = &rank;
    }
  }
  return ranks;
}

}  // namespace

void SlowWatch::open() {
  least_lost_ = usable_env().ours.slow;
  if (least_lost_ > 0) look();
}

void SlowWatch::look() {
  control_.loop().at(Deadline::in(kLookEach), [this] { look(); });
  ++seconds_;
  std::set<std::string> here;
  for (const auto& client : control_.all_clients()) {
    if (client->rank() != 0 || client->ranks() < 2 || !client->has_members()) continue;
    here.insert(client->name());
    const int every = 1 + client->ranks() / kRanksASecond;
    const bool is_due = seconds_ % static_cast<uint64_t>(every) == 0;
    if (is_due && StatusBook::of_this_process().has_moved(client->name())) ask(client);
    const auto known = watched_.find(client->name());
    if (known == watched_.end() || ++known->second.quiet != kOutdated * every) continue;
    known->second.ranks = SlowRanks(least_lost_);
    known->second.links = SlowLinks(hosts_of(*client));
    known->second.findings.forget();
  }
  std::erase_if(watched_, [&](const auto& one) { return !here.contains(one.first); });
  publish();
}

void SlowWatch::ask(const std::shared_ptr<ControlClient>& client) {
  const std::string& name = client->name();
  Watched& of =
      watched_.try_emplace(name, Watched{SlowRanks(least_lost_), SlowLinks(hosts_of(*client)), {}}).first->second;
  if (std::exchange(of.asked, true)) return;
  try {
    survey_.ask({.word = "timing " + name,
                 .key = kTimingKey,
                 .most = kMaxTiming,
                 .concerns = [&](const ControlClient& one) { return one.name() == name; }},
                [this, client](const std::vector<Survey::Asked>& all) { judge(*client, all); });
  } catch (...) {
    of.asked = false;
    throw;
  }
}

void SlowWatch::judge(ControlClient& client, const std::vector<Survey::Asked>& others) {
  const auto place = watched_.find(client.name());
  if (place == watched_.end()) return;
  Watched& of = place->second;
  of.asked = false;
  const ProcessTiming mine = StatusBook::of_this_process().timing(client.name());
  std::vector<std::pair<const Survey::Asked*, ProcessTiming>> answers;
  for (const Survey::Asked& asked : others) {
    try {
      if (asked.answer) answers.emplace_back(&asked, unpack_fields<ProcessTiming>(*asked.answer));
    } catch (const Error& error) {
      log_debug("control thread: process {} on {} sent an invalid timing: {}", asked.process.process,
                asked.process.host, error.what());
    }
  }
  const std::vector<const RankTiming*> ranks = by_rank(client, mine, answers);
  if (const auto gap = std::find(ranks.begin(), ranks.end(), nullptr); gap != ranks.end()) {
    if (!std::exchange(of.has_gaps, true)) {
      log_info("{}: nobody can be found to be slow: rank {}, and perhaps others, do not tell how their calls go",
               describe_rank(0, client.member(0)), gap - ranks.begin());
    }
    return;
  }
  of.quiet = 0;
  of.ranks.take(ranks);
  of.links.take(ranks);
  for (const std::string& news : of.findings.update(found(of, client))) log_warn("{}", news);
  publish();
}

std::map<std::string, std::string> SlowWatch::found(const Watched& of, const ControlClient& client) const {
  std::map<std::string, std::string> all;
  const std::string title = StatusBook::of_this_process().title_of(client.name());
  const auto note = [&](std::string what, const std::string& text) {
    all[std::move(what)] = fmt::format("{}: {}", title, text).substr(0, ProcessStatus::kMaxSlowText);
  };
  for (const SlowRank& slow : of.ranks.found()) note(fmt::format("rank {}", slow.rank), words(slow, client));
  for (const SlowLink& slow : of.links.found()) {
    note(fmt::format("{} link {} {}", slow.transport, slow.from, slow.to), words(slow, client));
  }
  return all;
}

void SlowWatch::publish() const {
  std::vector<std::string> all;
  for (const auto& [name, of] : watched_) {
    for (std::string& text : of.findings.texts()) all.push_back(std::move(text));
  }
  if (all.size() > ProcessStatus::kMaxSlow) {
    const size_t more = all.size() - ProcessStatus::kMaxSlow + 1;
    all.resize(ProcessStatus::kMaxSlow - 1);
    all.push_back(fmt::format("{} more ranks and links are slow", more));
  }
  StatusBook::of_this_process().set_slow(std::move(all));
}

}  // namespace tutti::control
