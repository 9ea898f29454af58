#include "control/status/status_server.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/wait_graph.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxRequest = 64;      // bytes
constexpr size_t kMaxFields = 8 << 20;  // bytes of another process's ranks
constexpr double kKept = 0.1;           // seconds for which an answer is given again

void add_known(JobProcess& process, KnownRank rank) {
  const bool again = std::any_of(process.known.begin(), process.known.end(), [&](const KnownRank& known) {
    return known.rank == rank.rank && known.communicator == rank.communicator;
  });
  if (!again) process.known.push_back(std::move(rank));
}

std::string address_of(const Member& member) {
  return member.addresses.empty() ? "127.0.0.1" : to_string(member.addresses.front());
}

}  // namespace

/// Answers of other processes, as they come.
struct StatusServer::Gathering {
  JobStatus job;
  std::map<uint64_t, size_t> places;  // by process: where it is in the job
  size_t open = 0;                    // questions without an answer
  bool asked = false;                 // all of them
};

StatusServer::StatusServer(ControlThread& control)
    : control_(control),
      clients_(control.loop(),
               {.admits = may_ask, .received = [this](Clients::Id client) { obey(client); }, .dropped = {}}),
      questions_(control.loop()) {}

void StatusServer::open() {
  const Member& me = control_.local_member();
  try {
    clients_.listen(listen_unix(status_socket(me.process, me.started)));
    look();
  } catch (const std::exception& error) {  // a job runs without it
    log_warn("tutti status cannot ask this process: {}", error.what());
  }
  metrics_.open();
  ras_.open();
}

/// Every second: since when has each rank made no call?
void StatusServer::look() {
  control_.loop().at(Deadline::in(1), [this] { look(); });
  StatusBook::of_this_process().look();
}

/// A request is a line.
void StatusServer::obey(Clients::Id client) {
  if (client->request.size() > kMaxRequest) return clients_.drop(client);
  if (client->request.back() != '\n') return;
  const std::string request = client->request.substr(0, client->request.size() - 1);
  StatusBook& book = StatusBook::of_this_process();
  if (request == "fields") return clients_.answer(client, book.answer(kMaxFields));
  if (request == "metrics") return clients_.answer(client, pack_fields(book.metrics()));
  if (request == "trace") {
    return clients_.answer(client, book.trace(control_.local_member().host_name));
  }
  if (request != "job") return clients_.drop(client);
  clients_.hold(client);
  with_job([this](const JobStatus& job) { answer_waiting(job); });
}

void StatusServer::answer_waiting(const JobStatus& job) {
  std::string page;
  clients_.each_waiting([&](Clients::Id client) {
    if (page.empty()) page = to_json(job);
    clients_.answer(client, page);
  });
}

void StatusServer::with_job(UseJob use) {
  if (kept_ && Deadline::Clock::now() < kept_until_) return use(*kept_);
  uses_.push_back(std::move(use));
  if (gathering_ == nullptr) gather();
}

/// Asks one rank of each other process with which this one shares a communicator.
void StatusServer::gather() {
  gathering_ = std::make_shared<Gathering>();
  try {
    ask_all(gathering_);
  } catch (...) {  // those who wait end by their own timers
    gathering_.reset();
    uses_.clear();
    throw;
  }
}

void StatusServer::ask_all(const std::shared_ptr<Gathering>& now) {
  const Member& me = control_.local_member();
  now->job = {.host = me.host_name, .process = me.process, .processes = {}};
  JobProcess mine{.host = me.host_name, .address = address_of(me), .process = me.process};
  mine.state = JobProcess::State::Answers;
  mine.status = StatusBook::of_this_process().read();
  std::map<std::string, std::string> titles;
  for (const RankStatus& rank : mine.status.ranks) titles[rank.communicator] = rank.title;
  now->job.processes.push_back(std::move(mine));
  for (const auto& client : control_.all_clients()) {
    if (!client->has_members()) continue;
    for (Rank rank = 0; rank < client->ranks(); ++rank) {
      const Member& member = client->member(rank);
      if (same_process(member, me) || client->left(rank)) continue;
      const auto [place, fresh] = now->places.emplace(process_key(client->process_id(rank)), now->job.processes.size());
      if (fresh) {
        now->job.processes.push_back(
            {.host = member.host_name, .address = address_of(member), .process = member.process});
      }
      JobProcess& process = now->job.processes[place->second];
      add_known(process, {.communicator = client->name(), .title = titles[client->name()], .rank = rank});
      if (client->lost(rank)) process.state = JobProcess::State::Gone;
      if (!fresh || process.state == JobProcess::State::Gone) continue;
      ++now->open;
      const Then then = [this, now, at = place->second, member](const auto& answer) {
        JobProcess& of = now->job.processes[at];
        if (answer) take(of, *answer);
        const bool here = member.host == control_.local_member().host;
        if (!answer && here && is_stopped(member.process, member.started)) of.state = JobProcess::State::Stopped;
        if (--now->open == 0 && now->asked && gathering_ == now) gathered();
      };
      const auto over_server = [client, rank, then] {
        client->ask(rank, kStatusKey, Deadline::in(Questions::kSilent), then);
      };
      // At its socket no rendezvous server is needed, whose process may be the one that is stopped.
      if (member.host != me.host) {
        over_server();
      } else {
        questions_.ask(
            {.member = member, .request = "fields", .most = kMaxFields, .answer = then, .unreachable = over_server});
      }
    }
  }
  now->asked = true;
  if (now->open == 0) gathered();
}

void StatusServer::take(JobProcess& process, const std::string& answer) {
  try {
    process.status = unpack_fields<ProcessStatus>(answer);
    process.state = JobProcess::State::Answers;
  } catch (const Error& error) {
    log_debug("control thread: process {} on {} sent an invalid status: {}", process.process, process.host,
              error.what());
  }
}

void StatusServer::gathered() {
  kept_ = std::exchange(gathering_, nullptr)->job;
  kept_until_ = Deadline::in(kKept).at();
  for (const UseJob& use : std::exchange(uses_, {})) use(*kept_);
}

}  // namespace tutti::control
