#include "transports/cuda/shared_buffers.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "transports/cuda/buffer_messages.hpp"
#include "transports/cuda/retired.hpp"

namespace tutti::cuda {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);  // at what may end a wait
constexpr auto kUnheldFor = std::chrono::seconds(5);           // longer than a call takes from its offer to its graph

}  // namespace

SharedBuffers::SharedBuffers(transports::Wireup& wireup, const Device& device) : wireup_(wireup), device_(device) {
  wireup_.serve(kBufferService, [this](Rank from, const std::string& request) { return reply(from, request); });
}

SharedBuffers::~SharedBuffers() {
  end();
  for (auto& [id, own] : own_) Retired::instance().put(device_, std::move(own.buffer));
  for (auto& [whose, theirs] : theirs_) Retired::instance().put(device_, std::move(theirs.mapped));
  for (auto& [whose, leaving] : leaving_) Retired::instance().put(device_, std::move(leaving.mapped));
}

void SharedBuffers::start(Surroundings around) {
  around_ = std::move(around);
  if (!around_.peers.empty()) thread_ = start_thread<std::thread>([this] { work(); });
}

void SharedBuffers::leave() {
  const std::lock_guard lock(mutex_);
  leaves_ = true;
}

/// The service stays: within a process, who asks one that is not there waits for it.
void SharedBuffers::end() {
  if (ends_.exchange(true)) return;
  wireup_.serve(kBufferService, [](Rank, const std::string&) {
    return transports::Wireup::Reply{pack_fields(Reply{.refusal = "it has left the communicator"}), Fd()};
  });
  {
    const std::lock_guard lock(mutex_);
    added_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// ---- of this rank

link::SharedRegion SharedBuffers::find(const void* data, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, own] : own_) {
    if (data != nullptr && own.all_have_it() && own.buffer->holds(data, bytes)) return {id, own.buffer->base()};
  }
  return {};
}

uint64_t SharedBuffers::offer(const void* data, uint64_t bytes, For whom, Deadline deadline) {
  if (around_.peers.empty()) return 0;
  withdraw_freed(data, bytes);
  if (const uint64_t known = join_known(data, bytes, whom)) return known;
  auto buffer = make(data, bytes);
  uint64_t id = link::kFirstUserRegion, number = 0;
  {
    const std::lock_guard lock(mutex_);
    while (own_.count(id) != 0) ++id;
    if (id >= link::kRegions) {
      throw_error(Code::Unsupported,
                  "{} buffers are registered or in use, which is the maximum: deregister some, or end graphs",
                  own_.size());
    }
    Own& own = own_[id] = {.buffer = std::move(buffer), .number = number = ++last_number_};
    own.held = std::make_shared<char>();
    own.users = whom == For::User ? 1 : 0;
    own.is_for_graphs = whom == For::Graphs;
    own.offered_at = Clock::now();
    for (const Peer& peer : around_.peers) own.unanswered.insert(peer.rank);
    added_.notify_all();
  }
  tell_offered(id, number, deadline);
  return number;
}

/// Peers of this process read its mapped memory where it is, those of others need descriptors.
std::shared_ptr<OwnBuffer> SharedBuffers::make(const void* data, uint64_t bytes) const {
  auto buffer = std::make_shared<OwnBuffer>(device_, data, bytes);
  bool is_for_processes = false;
  for (const Peer& peer : around_.peers) {
    is_for_processes = is_for_processes || peer.device == nullptr;
    if (peer.device != nullptr && peer.device != &device_) buffer->open_to(*peer.device);
  }
  if (is_for_processes) (void)buffer->piece(0);  // throws if it has no descriptor
  return buffer;
}

/// The number of the buffer that has these bytes, and is one for `whom` too from now on; 0: there is none.
uint64_t SharedBuffers::join_known(const void* data, uint64_t bytes, For whom) {
  const std::lock_guard lock(mutex_);
  const auto has_it = [&](const auto& own) {
    return !own.second.is_withdrawn && own.second.why_not.empty() && own.second.buffer->holds(data, bytes);
  };
  const auto found = std::find_if(own_.begin(), own_.end(), has_it);
  if (found == own_.end()) return 0;
  Own& own = found->second;
  if (whom == For::User) {
    ++own.users;
  } else {
    own.is_for_graphs = true;
    own.offered_at = Clock::now();
    added_.notify_all();
  }
  return own.number;
}

void SharedBuffers::tell_offered(uint64_t id, uint64_t number, Deadline deadline) {
  try {
    for (const Peer& peer : around_.peers) {
      ask(peer.rank, {.kind = Request::Kind::Offer, .id = id, .number = number}, deadline);
    }
  } catch (const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      const auto own = by_number(number);
      if (own != own_.end()) withdraw(own->second);
    }
    throw_error(error.code() == Code::Timeout ? Code::Unsupported : error.code(), "{}", error.what());
  }
}

bool SharedBuffers::wait(uint64_t number, Deadline deadline, const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = by_number(number);
    if (found == own_.end()) return false;
    Own& own = found->second;
    if (!own.why_not.empty()) {
      withdraw(own);
      throw_error(Code::Unsupported, "{}", own.why_not);
    }
    if (own.all_have_it()) return true;
    own.is_awaited = !own.is_withdrawn && !deadline.passed() && !stop();
    if (!own.is_awaited) return false;
    answered_.wait_for(lock, kBetweenLooks);
  }
}

/// On the control thread, or a peer's in this process.
void SharedBuffers::take_answer(Rank from, const Request& request) {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(request.id);
  if (found == own_.end() || found->second.number != request.number) return;
  Own& own = found->second;
  own.unanswered.erase(from);
  if (!request.why_not.empty() && own.why_not.empty()) {
    own.why_not = fmt::format("rank {}: {}", from, request.why_not);
    if (!own.is_awaited && !own.is_withdrawn) {
      log_warn("rank {}: a registered buffer is not read in place: {}", wireup_.rank(), own.why_not);
      withdraw(own);
    }
  }
  if (own.all_have_it()) around_.changed();
  answered_.notify_all();
}

std::shared_ptr<void> SharedBuffers::hold(const link::SharedRegion& region) const {
  const std::lock_guard lock(mutex_);
  const auto own = own_.find(region.id);
  return own == own_.end() ? nullptr : own->second.held;
}

SharedBuffers::Owned::iterator SharedBuffers::by_number(uint64_t number) {
  return std::find_if(own_.begin(), own_.end(), [number](const auto& own) { return own.second.number == number; });
}

void SharedBuffers::withdraw(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto own = by_number(number);
  if (own != own_.end() && --own->second.users <= 0 && !own->second.is_for_graphs) withdraw(own->second);
}

/// The driver is asked without the lock, which the control thread takes too.
void SharedBuffers::withdraw_freed(const void* data, uint64_t bytes) {
  for (uint64_t next = 0;;) {
    std::shared_ptr<OwnBuffer> buffer;
    {
      const std::lock_guard lock(mutex_);
      auto own = own_.lower_bound(next);
      const auto holds = [&] { return !own->second.is_withdrawn && own->second.buffer->holds(data, 1); };
      while (own != own_.end() && !holds()) ++own;
      if (own == own_.end()) return;
      buffer = own->second.buffer;
      next = own->first + 1;
    }
    if (!buffer->was_freed(data, bytes)) continue;
    const std::lock_guard lock(mutex_);
    const auto own = own_.find(next - 1);
    if (own != own_.end() && own->second.buffer == buffer) withdraw(own->second);
  }
}

/// The lock is held.
void SharedBuffers::withdraw(Own& own) {
  if (own.is_withdrawn) return;
  own.is_withdrawn = true;
  around_.changed();  // before calls are counted: one that is planned from now on does not find it
  own.used_until = around_.enqueued();
  answered_.notify_all();
  added_.notify_all();
}

// ---- the thread

void SharedBuffers::work() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    withdraw_from_graphs();
    if (!leaving_.empty()) {
      lock.unlock();
      unmap_unread();
      lock.lock();
    }
    if (!tasks_.empty()) {
      const Task task = tasks_.front();
      tasks_.pop_front();
      lock.unlock();
      perform(task);
      lock.lock();
    } else if (const auto gone = unused(); gone != own_.end()) {
      const uint64_t id = gone->first, number = gone->second.number;
      Retired::instance().put(device_, std::move(gone->second.buffer));  // freeing may wait for kernels
      own_.erase(gone);
      lock.unlock();
      tell_withdrawn(id, number);
      lock.lock();
    } else {
      sleep(lock);
    }
  }
}

/// Until there may be something to do: neither calls nor graphs say when they end.
void SharedBuffers::sleep(std::unique_lock<std::mutex>& lock) {
  const auto any = [this](auto what) { return std::any_of(own_.begin(), own_.end(), what); };
  const auto waits_for_calls = [](const auto& own) { return own.second.is_withdrawn && !own.second.is_held(); };
  const auto waits_for_graphs = [](const auto& own) { return own.second.is_withdrawn || own.second.is_for_graphs; };
  if (ends_) return;
  if (!leaving_.empty() || any(waits_for_calls)) {
    added_.wait_for(lock, kBetweenLooks);
  } else if (any(waits_for_graphs)) {
    added_.wait_for(lock, kUnheldFor / 5);
  } else {
    added_.wait(lock);
  }
}

void SharedBuffers::withdraw_from_graphs() {
  for (auto& [id, own] : own_) {
    if (!own.is_for_graphs || own.is_held() || Clock::now() - own.offered_at < kUnheldFor) continue;
    own.is_for_graphs = false;
    if (own.users <= 0) withdraw(own);
  }
}

/// One that no call of this rank uses any more: then no call of a peer does.
SharedBuffers::Owned::iterator SharedBuffers::unused() {
  const uint64_t ended = around_.ended();
  return std::find_if(own_.begin(), own_.end(), [ended](const auto& own) {
    return own.second.is_withdrawn && !own.second.is_held() && own.second.used_until <= ended;
  });
}

void SharedBuffers::withdraw_theirs(const Whose& whose) {
  const auto theirs = theirs_.find(whose);
  leaving_[whose] = {.mapped = std::move(theirs->second.mapped), .read_until = around_.enqueued()};
  theirs_.erase(theirs);
}

/// Its owner's calls have ended, so no kernel here reads it; but this process relies on its own calls' ends.
void SharedBuffers::unmap_unread() {
  const uint64_t ended = around_.ended();
  for (auto next = leaving_.begin(); next != leaving_.end();) {
    const auto it = next++;
    if (it->second.read_until > ended) continue;
    const auto [peer, id] = it->first;
    const std::optional<Task> then = it->second.then;
    around_.set_region(peer, id, {});
    Retired::instance().put(device_, std::move(it->second.mapped));
    leaving_.erase(it);
    if (then) map_and_answer(*then);
  }
}

}  // namespace tutti::cuda
