#include "control/status/survey.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/wait_graph.hpp"

namespace tutti::control {
namespace {

void add_known(JobProcess& process, KnownRank rank) {
  const bool again = std::any_of(process.known.begin(), process.known.end(), [&](const KnownRank& known) {
    return known.rank == rank.rank && known.communicator == rank.communicator;
  });
  if (!again) process.known.push_back(std::move(rank));
}

}  // namespace

/// Answers, as they come.
struct Survey::Gathering {
  std::vector<Asked> all;
  std::map<uint64_t, size_t> places;  // by process: where it is in `all`
  size_t open = 1;                    // questions without an answer, and the asking itself
  Then then;

  void close() {
    if (--open == 0) then(std::move(all));
  }
};

void Survey::ask(const Question& question, Then then) {
  const auto now = std::make_shared<Gathering>();
  now->then = std::move(then);
  for (const auto& client : control_.all_clients()) {
    if (!client->has_members() || (question.concerns && !question.concerns(*client))) continue;
    for (Rank rank = 0; rank < client->ranks(); ++rank) {
      if (!same_process(client->member(rank), control_.local_member()) && !client->left(rank)) {
        ask_rank(question, client, rank, now);
      }
    }
  }
  now->close();
}

/// Asks its process, unless another rank of it was asked.
void Survey::ask_rank(const Question& question, const std::shared_ptr<ControlClient>& client, Rank rank,
                      const std::shared_ptr<Gathering>& now) {
  const Member& member = client->member(rank);
  const auto [place, fresh] = now->places.emplace(process_key(client->process_id(rank)), now->all.size());
  if (fresh) {
    now->all.push_back({.process = {.host = member.host_name, .address = address_of(member), .process = member.process},
                        .answer = {}});
  }
  JobProcess& process = now->all[place->second].process;
  add_known(process, {.communicator = client->name(), .rank = rank});
  if (client->lost(rank)) process.state = JobProcess::State::Gone;
  if (!fresh || process.state == JobProcess::State::Gone) return;
  ++now->open;
  const bool here = member.host == control_.local_member().host;
  const auto take = [now, at = place->second, member, here](const std::optional<std::string>& answer) {
    Asked& of = now->all[at];
    of.answer = answer;
    if (!answer && here && is_stopped(member.process, member.started)) of.process.state = JobProcess::State::Stopped;
    now->close();
  };
  const auto over_server = [client, rank, take, key = question.key] {
    client->ask(rank, key, Deadline::in(Questions::kSilent), take);
  };
  if (!here) return over_server();
  questions_.ask(
      {.member = member, .request = question.word, .most = question.most, .answer = take, .unreachable = over_server});
}

}  // namespace tutti::control
