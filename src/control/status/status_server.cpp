#include "control/status/status_server.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <string_view>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/rendezvous_server.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxRequest = 512;  // bytes
constexpr std::string_view kTiming = "timing ";
constexpr size_t kMaxFields = 8 << 20;  // bytes of another process's ranks
constexpr double kKept = 0.1;           // seconds for which an answer is given again

/// When this process heard last of the others, over the control connections of each communicator.
StatusBook::HeardAt heard(ControlThread& control) {
  StatusBook::HeardAt all;
  for (const auto& server : control.servers()) {
    server->each_arrival([&](Rank rank, const Member& member, Deadline::Clock::time_point at) {
      if (!same_process(member, control.local_member())) all[server->name()].emplace(rank, at);
    });
  }
  for (const auto& client : control.all_clients()) {
    if (const auto server = client->heard()) {  // of several ranks' connections the last
      auto& at = all[client->name()].emplace(*server).first->second;
      at = std::max(at, server->second);
    }
  }
  return all;
}

}  // namespace

void check_status_settings() {
  parse_metrics_target(usable_env().ours.metrics);
  ras::check_address(usable_env().ours.ras_address);
}

StatusServer::StatusServer(ControlThread& control)
    : control_(control),
      clients_(control.loop(),
               {.admits = may_ask, .received = [this](Clients::Id client) { obey(client); }, .dropped = {}}),
      questions_(control.loop()),
      trace_signal_(control.loop()) {}

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
  slow_.open();
  trace_signal_.open();
}

/// Every second: since when has each rank made no call, and of which processes is something heard?
void StatusServer::look() {
  control_.loop().at(Deadline::in(1), [this] { look(); });
  StatusBook& book = StatusBook::of_this_process();
  book.look();
  book.set_heard(heard(control_));
}

/// A request is a line.
void StatusServer::obey(Clients::Id client) {
  if (client->request.size() > kMaxRequest) return clients_.drop(client);
  if (client->request.back() != '\n') return;
  const std::string request = client->request.substr(0, client->request.size() - 1);
  StatusBook& book = StatusBook::of_this_process();
  if (request == "fields") {
    book.set_heard(heard(control_));
    return clients_.answer(client, book.answer(kMaxFields));
  }
  if (request.starts_with(kTiming)) {
    return clients_.answer(client, book.timing_answer(request.substr(kTiming.size()), kMaxFields));
  }
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
  if (gathering_) return;
  gathering_ = true;
  try {
    survey_.ask({.word = "fields", .key = kStatusKey, .most = kMaxFields},
                [this](std::vector<Survey::Asked> all) { gathered(std::move(all)); });
  } catch (...) {  // those who wait end by their own timers
    gathering_ = false;
    uses_.clear();
    throw;
  }
}

void StatusServer::gathered(std::vector<Survey::Asked> all) {
  const Member& me = control_.local_member();
  JobProcess mine{.host = me.host_name, .address = address_of(me), .process = me.process};
  mine.state = JobProcess::State::Answers;
  StatusBook::of_this_process().set_heard(heard(control_));
  mine.status = StatusBook::of_this_process().read();
  std::map<std::string, std::string> titles;
  for (const RankStatus& rank : mine.status.ranks) titles[rank.communicator] = rank.title;
  JobStatus job{.host = me.host_name, .process = me.process, .processes = {}};
  job.processes.push_back(std::move(mine));
  for (Survey::Asked& asked : all) {
    JobProcess& process = job.processes.emplace_back(std::move(asked.process));
    for (KnownRank& known : process.known) known.title = titles[known.communicator];
    if (asked.answer) take(process, *asked.answer);
  }
  note_heard(job);
  gathering_ = false;
  kept_ = std::move(job);
  kept_until_ = Deadline::in(kKept).at();
  for (const UseJob& use : std::exchange(uses_, {})) use(*kept_);
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

}  // namespace tutti::control
