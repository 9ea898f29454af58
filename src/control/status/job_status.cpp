#include "control/status/job_status.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace tutti::control {
namespace {

using nlohmann::ordered_json;

ordered_json to_page(const RankStatus& rank) {
  ordered_json page{{"communicator", rank.communicator.substr(0, 8)},
                    {"title", rank.title},
                    {"rank", rank.rank},
                    {"ranks", rank.ranks},
                    {"transports", rank.transports},
                    {"entered", rank.entered},
                    {"left", rank.left},
                    {"transfers", rank.transfers},
                    {"sent_bytes", rank.sent},
                    {"received_bytes", rank.received},
                    {"waited_seconds", static_cast<double>(rank.waited_ms) / 1e3},
                    {"call", rank.call},
                    {"call_is_transfer", rank.is_transfer != 0},
                    {"still_seconds", rank.still_ms / 1e3}};
  if (rank.stuck_ms > 0) {
    page["waits_seconds"] = rank.stuck_ms / 1e3;
    page["waits_for"] = rank.awaited;
  }
  if (!rank.failure.empty()) page["failure"] = rank.failure;
  return page;
}

}  // namespace

void note_heard(JobStatus& job) {
  std::map<std::pair<std::string, Rank>, JobProcess*> holders;
  for (JobProcess& process : job.processes) {
    for (const KnownRank& known : process.known) holders[{known.communicator, known.rank}] = &process;
    for (const RankStatus& rank : process.status.ranks) holders[{rank.communicator, rank.rank}] = &process;
  }
  for (const JobProcess& process : job.processes) {
    for (const RankStatus& rank : process.status.ranks) {
      for (const Heard& heard : rank.heard) {
        const auto holder = holders.find({rank.communicator, heard.rank});
        if (holder == holders.end() || holder->second == &process) continue;
        std::optional<uint32_t>& age = holder->second->heard_ms;
        age = std::min(age.value_or(heard.ms), heard.ms);
      }
    }
  }
}

std::string to_json(const JobStatus& job) {
  ordered_json page{{"tutti_status", kStatusFormat}, {"host", job.host}, {"process", job.process}};
  page["processes"] = ordered_json::array();
  for (const JobProcess& process : job.processes) {
    const char* const states[] = {"answers", "silent", "stopped", "gone"};
    ordered_json one{
        {"host", process.host}, {"process", process.process}, {"state", states[static_cast<size_t>(process.state)]}};
    if (process.heard_ms) one["heard_seconds"] = *process.heard_ms / 1e3;
    one["ranks"] = ordered_json::array();
    if (process.state == JobProcess::State::Answers) {
      one["version"] = process.status.version;
      for (const RankStatus& rank : process.status.ranks) one["ranks"].push_back(to_page(rank));
      if (process.status.omitted > 0) one["omitted"] = process.status.omitted;
    } else {
      for (const KnownRank& known : process.known) {
        one["ranks"].push_back(
            {{"communicator", known.communicator.substr(0, 8)}, {"title", known.title}, {"rank", known.rank}});
      }
    }
    page["processes"].push_back(std::move(one));
  }
  page["verdicts"] = verdicts(job);
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::control
