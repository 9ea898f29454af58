#include "control/control_thread.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/port_range.hpp"
#include "base/socket.hpp"
#include "control/communicator_connections.hpp"
#include "control/control_client.hpp"
#include "control/host.hpp"
#include "control/rendezvous_server.hpp"
#include "control/trunks.hpp"
#include "control/wait_table.hpp"

namespace tutti::control {
namespace {

std::atomic<ControlThread*> current{nullptr};

/// Held while the thread starts, and by fork(), so that no child inherits a partly started thread.
std::mutex& start_mutex() {
  static auto* const kMutex = [] {
    pthread_atfork([] { start_mutex().lock(); }, [] { start_mutex().unlock(); }, [] { start_mutex().unlock(); });
    return new std::mutex;
  }();
  return *kMutex;
}

/// Threads started while this object lives block all signals: signals are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

void run_on_thread(EventLoop& loop) {
  const SignalsBlocked blocked;
  std::thread thread = start_thread([&loop] {
    WaitTable::of_this_process().add_own_thread(static_cast<pid_t>(syscall(SYS_gettid)));
    loop.run();
  });
  pthread_setname_np(thread.native_handle(), "tutti-control");
  thread.detach();
}

}  // namespace

ControlThread& ControlThread::get() {
  ControlThread* control = current.load(std::memory_order_acquire);
  if (control != nullptr && !control->forked()) return *control;
  const std::lock_guard lock(start_mutex());
  control = current.load(std::memory_order_relaxed);
  if (control == nullptr || control->forked()) {
    control = new ControlThread;  // never destroyed: its thread runs until the process ends
    current.store(control, std::memory_order_release);
  }
  return *control;
}

ControlThread::ControlThread()
    : process_(getpid()), acceptor_(loop_, [this](const std::string& name) -> std::shared_ptr<ConnectionHandler> {
        const std::lock_guard lock(mutex_);
        const auto found = handlers_.find(name);
        return found == handlers_.end() ? nullptr : found->second;
      }) {
  try {
    const std::optional<PortRange> ports = fixed_ports();
    tcp_ = ports ? listen_tcp(static_cast<uint16_t>(ports->first + 1), ports->last) : listen_tcp(0);
  } catch (const Error& error) {  // this rank cannot join, and must be able to say so
    refused_ = error;
    tcp_ = listen_tcp(0);
  }
  local_member_.unix_name = "tutti-" + random_hex(16);
  unix_ = listen_unix(local_member_.unix_name);
  local_member_.nonce = random_u64();
  local_member_.host = host_identity();
  if (local_member_.host.empty()) {
    log_warn("/proc is not mounted here, so which processes share this host is unknown: they are reached by TCP");
    local_member_.host = public_name(derive_key(fmt::format("tutti process {}", local_member_.nonce)));
  }
  local_member_.process = static_cast<uint32_t>(process_);
  local_member_.started = process_start(local_member_.process);
  local_member_.host_name = host_name();
  try {
    local_member_.addresses = local_addresses();
    check_status_settings();
  } catch (const Error& error) {
    refused_ = error;
    local_member_.addresses = {Address::loopback()};
  }
  local_member_.addresses.resize(std::min<size_t>(local_member_.addresses.size(), 16));
  local_member_.port = port_of(tcp_.get());
  acceptor_.open(tcp_.get());
  acceptor_.open(unix_.get());
  status_.open();
  run_on_thread(loop_);
}

void ControlThread::check_settings() const {
  if (refused_) throw Error(*refused_);
}

bool ControlThread::forked() const { return getpid() != process_; }

void ControlThread::check_not_forked() const {
  if (!forked()) return;
  throw_error(
      Code::InvalidUsage,
      "process {} was forked from process {}, whose communicators it cannot use: a rank's connections belong to "
      "the process that made them. Fork before the first use of Tutti, or exec in the child",
      getpid(), process_);
}

void ControlThread::add_handler(std::shared_ptr<ConnectionHandler> handler) {
  const std::lock_guard lock(mutex_);
  handlers_[public_name(handler->key())] = std::move(handler);
}

void ControlThread::remove_handler(const Key& key) {
  const std::lock_guard lock(mutex_);
  handlers_.erase(public_name(key));
}

/// Under the lock.
ControlThread::Entry& ControlThread::entry(const Key& key) {
  const std::string name = public_name(key);
  if (!handlers_.contains(name)) handlers_[name] = std::make_shared<CommunicatorConnections>(*this, key);
  return entries_[name];
}

void ControlThread::remove_if_unused(const std::string& name) {
  const std::lock_guard lock(mutex_);
  erase_if_unused(name);
}

/// Under the lock.
void ControlThread::erase_if_unused(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  if (!entry.server && entry.clients.empty() && entry.trunks.expired()) {
    entries_.erase(found);
    handlers_.erase(name);
  }
  changed_.notify_all();
}

bool ControlThread::add_server(const Key& key, std::shared_ptr<RendezvousServer> server) {
  const std::lock_guard lock(mutex_);
  auto& present = entry(key).server;
  if (present != nullptr) return false;
  present = std::move(server);
  return true;
}

std::shared_ptr<RendezvousServer> ControlThread::server(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.server;
}

/// The name of a communicator is public: a member of one must not reach the server of another.
std::shared_ptr<RendezvousServer> ControlThread::server_of_split(const std::string& name,
                                                                 const std::shared_ptr<Trunks>& trunks) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  const auto& clients = entry.clients;
  const bool ours = (entry.server == nullptr || entry.server->trunks() == trunks) && entry.trunks.expired() &&
                    std::all_of(clients.begin(), clients.end(),
                                [&](const auto& client) { return client.second->trunks() == trunks; });
  try {
    if (!ours) throw_error(Code::InvalidArgument, "this unique id is another job's, or its job has ended");
    if (entry.server == nullptr) {
      entry.server = std::make_shared<RendezvousServer>(*this, name, trunks);
      entry.server->open();
    }
  } catch (...) {
    erase_if_unused(name);
    throw;
  }
  return entry.server;
}

void ControlThread::remove_server(const std::string& name) {
  std::shared_ptr<RendezvousServer> last;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(name); found != entries_.end()) last.swap(found->second.server);
  erase_if_unused(name);
}

void ControlThread::add_client(const std::shared_ptr<ControlClient>& client) {
  const std::lock_guard lock(mutex_);
  if (!entry(client->key()).clients.emplace(client->rank(), client).second) {
    throw_error(Code::InvalidArgument, "rank {} of this communicator is taken: another thread of this process has it",
                client->rank());
  }
}

std::shared_ptr<ControlClient> ControlThread::client(const std::string& name, Rank rank) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return nullptr;
  const auto found = entry->second.clients.find(rank);
  return found == entry->second.clients.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<ControlClient>> ControlThread::clients(const std::string& name) {
  std::vector<std::shared_ptr<ControlClient>> all;
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find(name); entry != entries_.end()) {
    for (const auto& [rank, client] : entry->second.clients) all.push_back(client);
  }
  return all;
}

std::vector<std::shared_ptr<ControlClient>> ControlThread::all_clients() {
  std::vector<std::shared_ptr<ControlClient>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    for (const auto& [rank, client] : entry.clients) all.push_back(client);
  }
  return all;
}

std::vector<std::shared_ptr<RendezvousServer>> ControlThread::servers() {
  std::vector<std::shared_ptr<RendezvousServer>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.server) all.push_back(entry.server);
  }
  return all;
}

void ControlThread::remove_client(const ControlClient& client) {
  std::shared_ptr<ControlClient> last;
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find(client.name()); entry != entries_.end()) {
    if (const auto found = entry->second.clients.find(client.rank());
        found != entry->second.clients.end() && found->second.get() == &client) {
      last = std::move(found->second);
      entry->second.clients.erase(found);
    }
  }
  erase_if_unused(client.name());
}

std::shared_ptr<Trunks> ControlThread::trunks(const Key& key) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Trunks>& known = entry(key).trunks;
  auto trunks = known.lock();
  if (trunks == nullptr) known = trunks = std::make_shared<Trunks>(*this, key);
  return trunks;
}

std::shared_ptr<Trunks> ControlThread::trunks(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.trunks.lock();
}

void ControlThread::endpoint_opened() {
  const std::lock_guard lock(mutex_);
  ++endpoints_;
  changed_.notify_all();
}

bool ControlThread::endpoint_closed() {
  const std::lock_guard lock(mutex_);
  return --endpoints_ == 0;
}

void ControlThread::wait_until_informed(const std::string& name, size_t ranks, Deadline deadline) {
  const auto rendezvous = server(name);
  if (!rendezvous) return;
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.at(), [&] { return rendezvous->informed_ranks() >= ranks; });
}

/// Under the lock. A rendezvous server at which no rank has registered does not keep the process alive.
bool ControlThread::idle() const {
  return endpoints_ > 0 || std::all_of(entries_.begin(), entries_.end(), [](const auto& entry) {
           return entry.second.clients.empty() && (!entry.second.server || !entry.second.server->busy());
         });
}

/// Under the lock: every communicator that still needs this process has failed.
bool ControlThread::only_failed_remain() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& named) {
    const Entry& entry = named.second;
    if (entry.clients.empty()) return !entry.server || !entry.server->busy();
    return std::all_of(entry.clients.begin(), entry.clients.end(),
                       [](const auto& client) { return client.second->failed().load(std::memory_order_acquire) != 0; });
  });
}

/// Under the lock: of those that have failed.
bool ControlThread::failures_are_known() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& named) {
    const Entry& entry = named.second;
    const bool by_all = !entry.server || !entry.server->busy() || entry.server->failure_is_known();
    return by_all && std::all_of(entry.clients.begin(), entry.clients.end(),
                                 [](const auto& client) { return client.second->failure_is_known(); });
  });
}

bool ControlThread::wait_until_idle(Deadline deadline, double after_failure) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.at(), [this] { return idle() || only_failed_remain(); });
  const auto end = std::min(deadline.at(), Deadline::in(after_failure).at());
  changed_.wait_until(lock, end, [this] { return idle() || (only_failed_remain() && failures_are_known()); });
  return idle();
}

std::shared_ptr<ControlClient> ControlThread::unfinished() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (!entry.clients.empty()) return entry.clients.begin()->second;
  }
  return nullptr;
}

/// Takes the lock, since a waiter could otherwise miss the notification.
void ControlThread::notify() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void ControlThread::add_late_mismatch(LateMismatch mismatch_is_late) {
  const std::lock_guard lock(mutex_);
  if (!late_mismatch_) late_mismatch_ = std::move(mismatch_is_late);
}

std::optional<ControlThread::LateMismatch> ControlThread::take_late_mismatch() {
  const std::lock_guard lock(mutex_);
  return std::exchange(late_mismatch_, std::nullopt);
}

ControlThread::Watch ControlThread::watch_process(uint32_t process, uint64_t started, EventLoop::Task on_death) {
  auto [entry, fresh] = watched_.try_emplace(process);
  Watched& watched = entry->second;
  const Watch watch = next_watch_++;
  watched.tasks.emplace(watch, std::move(on_death));
  if (!fresh && watched.started == started) return watch;
  watched.process = process;
  watched.started = started;
  bool unsupported = false;
  if (fresh) watched.fd = control::watch_process(process, started, &unsupported);
  if (fresh && watched.fd) {
    watched.watch = loop_.watch(watched.fd.get(), EPOLLIN, [this, process](uint32_t) { on_process_died(process); });
  } else if (!unsupported) {
    loop_.post([this, process] { on_process_died(process); });  // it has died already
  } else {
    log_debug("control thread: this kernel has no pidfd: only closed connections reveal deaths");
  }
  return watch;
}

void ControlThread::unwatch_process(Watch& watch) {
  for (auto entry = watched_.begin(); entry != watched_.end(); ++entry) {
    if (entry->second.tasks.erase(watch) == 0) continue;
    if (entry->second.tasks.empty()) {
      loop_.unwatch(entry->second.watch);
      watched_.erase(entry);
    }
    break;
  }
  watch = 0;
}

void ControlThread::on_process_died(uint32_t process) {
  const auto found = watched_.find(process);
  if (found == watched_.end()) return;
  loop_.unwatch(found->second.watch);
  const auto tasks = std::move(found->second.tasks);
  watched_.erase(found);
  for (const auto& [watch, task] : tasks) task();
}

}  // namespace tutti::control
