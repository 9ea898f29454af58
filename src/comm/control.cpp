#include "comm/control.hpp"

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
#include "base/socket.hpp"
#include "comm/company.hpp"
#include "comm/host.hpp"
#include "comm/hub.hpp"
#include "comm/seat.hpp"
#include "comm/wait_table.hpp"

namespace tutti::comm {
namespace {

std::atomic<Control*> current{nullptr};

/// Held while the thread starts, and by fork(), so that no child inherits a half-started one.
std::mutex& start_mutex() {
  static auto* const kMutex = [] {
    pthread_atfork([] { start_mutex().lock(); }, [] { start_mutex().unlock(); }, [] { start_mutex().unlock(); });
    return new std::mutex;
  }();
  return *kMutex;
}

/// While it lives, threads that this one starts take no signals: those are meant for the program's own threads.
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

void run_on_thread(Loop& loop) {
  const SignalsBlocked blocked;
  std::thread thread = start_thread([&loop] {
    WaitTable::of_this_process().add_own_thread(static_cast<pid_t>(syscall(SYS_gettid)));
    loop.run();
  });
  pthread_setname_np(thread.native_handle(), "tutti-control");
  thread.detach();
}

}  // namespace

Control& Control::get() {
  Control* control = current.load(std::memory_order_acquire);
  if (control != nullptr && !control->forked()) return *control;
  const std::lock_guard lock(start_mutex());
  control = current.load(std::memory_order_relaxed);
  if (control == nullptr || control->forked()) {
    control = new Control;  // never destroyed: its thread runs until the process ends
    current.store(control, std::memory_order_release);
  }
  return *control;
}

Control::Control()
    : process_(getpid()), lobby_(loop_, [this](const std::string& name) -> std::shared_ptr<Party> {
        const std::lock_guard lock(mutex_);
        const auto found = parties_.find(name);
        return found == parties_.end() ? nullptr : found->second;
      }) {
  tcp_ = listen_tcp(0);
  home_.unix_name = "tutti-" + random_hex(16);
  unix_ = listen_unix(home_.unix_name);
  home_.nonce = random_u64();
  home_.host = host_identity();
  if (home_.host.empty()) {
    log_warn(
        "/proc is not mounted here, so this process cannot tell which others share its host: it reaches them by "
        "TCP, as if they ran elsewhere");
    home_.host = public_name(derive_key(fmt::format("tutti process {}", home_.nonce)));
  }
  home_.process = static_cast<uint32_t>(process_);
  home_.started = process_start(home_.process);
  home_.host_name = host_name();
  try {
    home_.addresses = local_addresses();
  } catch (const Error& error) {
    no_addresses_ = error;
    home_.addresses = {Address::loopback()};
  }
  home_.addresses.resize(std::min<size_t>(home_.addresses.size(), 16));
  home_.port = port_of(tcp_.get());
  lobby_.open(tcp_.get());
  lobby_.open(unix_.get());
  run_on_thread(loop_);
}

void Control::check_addresses() const {
  if (no_addresses_) throw Error(*no_addresses_);
}

bool Control::forked() const { return getpid() != process_; }

void Control::check_not_forked() const {
  if (!forked()) return;
  throw_error(
      Code::InvalidUsage,
      "process {} was forked from process {}, whose communicators it cannot use: a rank's connections belong to "
      "the process that made them. Fork before the first use of Tutti, or exec in the child",
      getpid(), process_);
}

void Control::add_party(std::shared_ptr<Party> party) {
  const std::lock_guard lock(mutex_);
  parties_[public_name(party->key())] = std::move(party);
}

void Control::remove_party(const Key& key) {
  const std::lock_guard lock(mutex_);
  parties_.erase(public_name(key));
}

/// Under the lock.
Control::Company& Control::company(const Key& key) {
  const std::string name = public_name(key);
  const auto [found, fresh] = companies_.try_emplace(name);
  if (fresh) parties_[name] = std::make_shared<CommunicatorParty>(*this, key);
  return found->second;
}

/// Under the lock: forgets a communicator of which nothing is left.
void Control::tidy(const std::string& name) {
  const auto found = companies_.find(name);
  if (found != companies_.end() && !found->second.hub && found->second.seats.empty()) {
    companies_.erase(found);
    parties_.erase(name);
  }
  changed_.notify_all();
}

void Control::add_hub(std::shared_ptr<Hub> hub) {
  const std::lock_guard lock(mutex_);
  company(hub->key()).hub = std::move(hub);
}

std::shared_ptr<Hub> Control::hub(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = companies_.find(name);
  return found == companies_.end() ? nullptr : found->second.hub;
}

void Control::remove_hub(const std::string& name) {
  std::shared_ptr<Hub> last;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (const auto found = companies_.find(name); found != companies_.end()) last.swap(found->second.hub);
  tidy(name);
}

void Control::add_seat(const std::shared_ptr<Seat>& seat) {
  const std::lock_guard lock(mutex_);
  if (!company(seat->key()).seats.emplace(seat->rank(), seat).second) {
    throw_error(Code::InvalidArgument, "rank {} of this communicator is taken: another thread of this process has it",
                seat->rank());
  }
}

std::shared_ptr<Seat> Control::seat(const std::string& name, Rank rank) {
  const std::lock_guard lock(mutex_);
  const auto company = companies_.find(name);
  if (company == companies_.end()) return nullptr;
  const auto found = company->second.seats.find(rank);
  return found == company->second.seats.end() ? nullptr : found->second;
}

void Control::remove_seat(const Seat& seat) {
  std::shared_ptr<Seat> last;
  const std::lock_guard lock(mutex_);
  if (const auto company = companies_.find(seat.name()); company != companies_.end()) {
    if (const auto found = company->second.seats.find(seat.rank());
        found != company->second.seats.end() && found->second.get() == &seat) {
      last = std::move(found->second);
      company->second.seats.erase(found);
    }
  }
  tidy(seat.name());
}

void Control::endpoint_came() {
  const std::lock_guard lock(mutex_);
  ++endpoints_;
  changed_.notify_all();
}

bool Control::endpoint_went() {
  const std::lock_guard lock(mutex_);
  return --endpoints_ == 0;
}

void Control::wait_until_told(const std::string& name, size_t ranks, Deadline deadline) {
  const auto meeting_point = hub(name);
  if (!meeting_point) return;
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.at(), [&] { return meeting_point->told() >= ranks; });
}

/// Under the lock. A meeting point to which nobody has come yet keeps no process from ending.
bool Control::through() const {
  return endpoints_ > 0 || std::all_of(companies_.begin(), companies_.end(), [](const auto& entry) {
           return entry.second.seats.empty() && (!entry.second.hub || !entry.second.hub->busy());
         });
}

/// Under the lock: nobody waits for the ranks of this process but in communicators that have failed.
bool Control::only_failed_left() const {
  return std::all_of(companies_.begin(), companies_.end(), [](const auto& entry) {
    const Company& company = entry.second;
    if (company.seats.empty()) return !company.hub || !company.hub->busy();
    return company.seats.begin()->second->failed().load(std::memory_order_acquire) != 0;
  });
}

bool Control::wait_until_through(Deadline deadline, double after_failure) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.at(), [this] { return through() || only_failed_left(); });
  const auto end = std::min(deadline.at(), Deadline::in(after_failure).at());
  return changed_.wait_until(lock, end, [this] { return through(); });
}

std::shared_ptr<Seat> Control::unfinished() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, company] : companies_) {
    if (!company.seats.empty()) return company.seats.begin()->second;
  }
  return nullptr;
}

/// Under the lock, or who waits could miss it.
void Control::notify() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Control::add_unheard(Unheard unheard) {
  const std::lock_guard lock(mutex_);
  if (!unheard_) unheard_ = std::move(unheard);
}

std::optional<Control::Unheard> Control::take_unheard() {
  const std::lock_guard lock(mutex_);
  return std::exchange(unheard_, std::nullopt);
}

Control::Watch Control::watch_process(uint32_t process, uint64_t started, Loop::Task on_death) {
  auto [entry, fresh] = watched_.try_emplace(process);
  Watched& watched = entry->second;
  const Watch watch = next_watch_++;
  watched.tasks.emplace(watch, std::move(on_death));
  if (!fresh && watched.started == started) return watch;
  watched.process = process;
  watched.started = started;
  bool unsupported = false;
  if (fresh) watched.fd = comm::watch_process(process, started, &unsupported);
  if (fresh && watched.fd) {
    watched.watch = loop_.watch(watched.fd.get(), EPOLLIN, [this, process](uint32_t) { process_died(process); });
  } else if (!unsupported) {
    loop_.post([this, process] { process_died(process); });  // it has died already
  } else {
    log_debug("control thread: no pidfd here: deaths are seen by closed connections only");
  }
  return watch;
}

void Control::unwatch_process(Watch& watch) {
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

void Control::process_died(uint32_t process) {
  const auto found = watched_.find(process);
  if (found == watched_.end()) return;
  loop_.unwatch(found->second.watch);
  const auto tasks = std::move(found->second.tasks);
  watched_.erase(found);
  for (const auto& [watch, task] : tasks) task();
}

}  // namespace tutti::comm
