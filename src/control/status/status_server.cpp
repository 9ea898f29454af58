#include "control/status/status_server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

constexpr size_t kMaxClients = 64;    // at a time; more are turned away
constexpr size_t kMaxQuestions = 64;  // the same
constexpr size_t kMaxRequest = 64;    // bytes
constexpr double kPatience = 5;       // seconds that a client may take
constexpr double kSilent = 0.6;       // seconds after which a process that has not answered is silent
constexpr double kPaused = 0.1;       // seconds without accepting, where no descriptor is left
constexpr double kKept = 0.1;         // seconds for which an answer is given again

bool may_ask(int fd) {
  const int64_t user = peer_user(fd);
  return user == 0 || user == static_cast<int64_t>(geteuid());
}

void add_known(JobProcess& process, KnownRank rank) {
  const bool again = std::any_of(process.known.begin(), process.known.end(), [&](const KnownRank& known) {
    return known.rank == rank.rank && known.communicator == rank.communicator;
  });
  if (!again) process.known.push_back(std::move(rank));
}

}  // namespace

std::string status_socket(uint32_t process, uint64_t started) {
  return fmt::format("tutti-status-{}-{}", process, started);
}

/// Answers of other processes, as they come.
struct StatusServer::Gathering {
  JobStatus job;
  std::map<uint64_t, size_t> places;  // by process: where it is in the job
  size_t open = 0;                    // questions without an answer
  bool asked = false;                 // all of them
};

void StatusServer::open() {
  const Member& me = control_.local_member();
  try {
    listener_ = listen_unix(status_socket(me.process, me.started));
    listen();
    look();
  } catch (const std::exception& error) {  // a job runs without it
    log_warn("tutti status cannot ask this process: {}", error.what());
  }
}

void StatusServer::listen() {
  watch_ = control_.loop().watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

/// Every second: since when has each rank made no call?
void StatusServer::look() {
  control_.loop().at(Deadline::in(1), [this] { look(); });
  StatusBook::of_this_process().look();
}

void StatusServer::accept_some() {
  constexpr int kAtOnce = 16;  // other work of this thread is not to wait for a flood
  for (int i = 0; i < kAtOnce; ++i) {
    Fd fd = accept_now(listener_.get());
    if (!fd && errno != EAGAIN && errno != ECONNABORTED) return pause();
    if (!fd) return;
    if (clients_.size() >= kMaxClients || !may_ask(fd.get())) continue;
    const auto client = clients_.emplace(clients_.end());
    try {
      client->fd = std::move(fd);
      client->timer = control_.loop().at(Deadline::in(kPatience), [this, client] {
        client->timer = 0;
        drop(client);
      });
      client->watch = control_.loop().watch(client->fd.get(), EPOLLIN,
                                            [this, client](uint32_t events) { on_ready(client, events); });
    } catch (...) {
      drop(client);
      throw;
    }
  }
}

/// No descriptor is left: the listener stays readable, and would be tried again and again.
void StatusServer::pause() {
  control_.loop().unwatch(watch_);
  control_.loop().at(Deadline::in(kPaused), [this] { listen(); });
}

void StatusServer::drop(Clients::iterator client) {
  control_.loop().unwatch(client->watch);
  control_.loop().cancel(client->timer);
  if (client->fd) shutdown(client->fd.get(), SHUT_RDWR);  // a forked child may hold it too
  clients_.erase(client);
}

void StatusServer::on_ready(Clients::iterator client, uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return drop(client);
  if (!client->reply.empty()) return write_reply(client);
  read_request(client);
}

void StatusServer::read_request(Clients::iterator client) {
  char bytes[kMaxRequest];
  const ptrdiff_t got = recv_now(client->fd.get(), bytes, sizeof bytes);
  if (got == 0) return;
  if (got < 0 && client->asked) return control_.loop().change(client->watch, 0);  // it sends no more, and waits
  if (got < 0 || client->asked || client->request.size() + static_cast<size_t>(got) > kMaxRequest) return drop(client);
  client->request.append(bytes, static_cast<size_t>(got));
  if (client->request.back() != '\n') return;
  client->asked = true;
  client->request.pop_back();
  if (client->request == "fields") {
    client->reply = StatusBook::of_this_process().answer();
  } else if (client->request == "job") {
    if (Deadline::Clock::now() >= kept_until_) return gather();  // the answer comes later
    client->reply = kept_;
  } else {
    return drop(client);
  }
  write_reply(client);
}

void StatusServer::write_reply(Clients::iterator client) {
  const ptrdiff_t put = send_now(client->fd.get(), std::string_view(client->reply).substr(client->sent));
  if (put < 0) return drop(client);
  client->sent += static_cast<size_t>(put);
  if (client->sent == client->reply.size()) return drop(client);
  control_.loop().change(client->watch, EPOLLOUT);
}

/// Asks one rank of each other process with which this one shares a communicator.
void StatusServer::gather() {
  if (gathering_ != nullptr) return;
  gathering_ = std::make_shared<Gathering>();
  try {
    ask_all(gathering_);
  } catch (...) {  // those who wait end by their own timers
    gathering_.reset();
    to_ask_.clear();
    throw;
  }
}

void StatusServer::ask_all(const std::shared_ptr<Gathering>& now) {
  const Member& me = control_.local_member();
  now->job = {.host = me.host_name, .process = me.process, .processes = {}};
  JobProcess mine{.host = me.host_name, .process = me.process, .state = JobProcess::State::Answers};
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
      if (fresh) now->job.processes.push_back({.host = member.host_name, .process = member.process});
      JobProcess& process = now->job.processes[place->second];
      add_known(process, {.communicator = client->name(), .title = titles[client->name()], .rank = rank});
      if (client->lost(rank)) process.state = JobProcess::State::Gone;
      if (!fresh || process.state == JobProcess::State::Gone) continue;
      ++now->open;
      const Then then = [this, now, at = place->second](const auto& answer) {
        if (answer) take(now->job.processes[at], *answer);
        if (--now->open == 0 && now->asked && gathering_ == now) gathered();
      };
      if (member.host == me.host) {
        to_ask_.push_back({client, rank, then});
      } else {
        client->ask(rank, kStatusKey, Deadline::in(kSilent), then);
      }
    }
  }
  ask_next();
  now->asked = true;
  if (now->open == 0) gathered();
}

/// A host may have more processes than this one may open descriptors.
void StatusServer::ask_next() {
  while (!to_ask_.empty() && questions_.size() < kMaxQuestions) {
    const ToAsk next = std::move(to_ask_.front());
    to_ask_.pop_front();
    if (!ask_here(next.client->member(next.rank), next.then)) {
      next.client->ask(next.rank, kStatusKey, Deadline::in(kSilent), next.then);
    }
  }
}

/// Needs no rendezvous server, whose process may be the one that is stopped. False if it cannot be asked so.
bool StatusServer::ask_here(const Member& member, const Then& then) {
  Fd fd;
  try {
    fd = connect_unix(status_socket(member.process, member.started), {.deadline = Deadline::in(0)});
  } catch (const Error&) {
    return false;
  }
  // Anybody may have taken the name.
  if (peer_process(fd.get()) != static_cast<int64_t>(member.process) || !may_ask(fd.get())) return false;
  constexpr std::string_view kAsk = "fields\n";
  if (send_now(fd.get(), kAsk) != static_cast<ptrdiff_t>(kAsk.size())) return false;
  const auto question = questions_.emplace(questions_.end());
  question->fd = std::move(fd);
  question->then = then;
  try {
    question->timer = control_.loop().at(Deadline::in(kSilent), [this, question] {
      question->timer = 0;
      resolve(question, false);
    });
    question->watch =
        control_.loop().watch(question->fd.get(), EPOLLIN, [this, question](uint32_t) { read_answer(question); });
  } catch (const std::exception&) {
    control_.loop().cancel(question->timer);
    questions_.erase(question);
    return false;
  }
  return true;
}

void StatusServer::read_answer(Questions::iterator question) {
  char bytes[4096];
  const ptrdiff_t got = recv_now(question->fd.get(), bytes, sizeof bytes);
  if (got < 0) return resolve(question, !question->answer.empty());
  question->answer.append(bytes, static_cast<size_t>(got));
  if (question->answer.size() > kMaxEntry) resolve(question, false);
}

void StatusServer::resolve(Questions::iterator question, bool answered) {
  control_.loop().unwatch(question->watch);
  control_.loop().cancel(question->timer);
  const Question done = std::move(*question);
  questions_.erase(question);
  ask_next();
  done.then(answered ? std::optional(done.answer) : std::nullopt);
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
  const auto done = std::exchange(gathering_, nullptr);
  kept_ = to_json(done->job);
  kept_until_ = Deadline::in(kKept).at();
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto next = std::next(client);
    if (client->asked && client->reply.empty()) {
      client->reply = kept_;
      write_reply(client);
    }
    client = next;
  }
}

}  // namespace tutti::control
